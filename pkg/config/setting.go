package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says which values a setting takes. Its text is what error messages give
// as the allowed values.
type Kind string

// The kinds of settings.
const (
	Bool    Kind = "true or false"
	Int     Kind = "a whole number"
	Number  Kind = "a number"
	Seconds Kind = "seconds (30, 0.5) or a time with a unit (500ms, 30s, 15m, 12h, 1d)"
	Text    Kind = "a text"
	Choice  Kind = "a choice"
	URL     Kind = "a URL"
	Address Kind = "host:port"
	Names   Kind = "a list of names"
	Queues  Kind = "a list of queue names, a list of maps with a name, or a map keyed by name"
	Served  Kind = "a list of queue names, or of maps with a name and a protocol"
	Map     Kind = "a map"
	Options Kind = "a map of options"
	Any     Kind = "anything"
)

// Support says whether this worker acts on a setting.
type Support string

const (
	// Supported settings do what Celery's documentation or Doc says.
	Supported Support = ""
	// NotYet settings are validated, and draw a warning: a later version will act
	// on them.
	NotYet Support = "not supported yet"
	// NotApplicable settings belong to Python or to another process; they are
	// accepted unread, with a warning.
	NotApplicable Support = "has no effect here"
)

// Range bounds the numbers and times (in seconds) of a setting, both inclusive.
type Range struct {
	Min, Max float64
}

// String says the range as error messages do.
func (r Range) String() string {
	if r.Max == unbounded {
		return "at least " + number(r.Min)
	}
	return "from " + number(r.Min) + " to " + number(r.Max)
}

// unbounded as Range.Max leaves the top open. As seconds it is about 285 years,
// the longest a time.Duration holds.
const unbounded = 9_000_000_000

func notNegative() *Range                { return &Range{Max: unbounded} }
func between(low, high float64) *Range   { return &Range{Min: low, Max: high} }
func number(n float64) string            { return strconv.FormatFloat(n, 'f', -1, 64) }
func (r *Range) contains(n float64) bool { return r == nil || n >= r.Min && n <= r.Max }

// Setting is one row of the table of settings.
type Setting struct {
	// Name is the setting's name; dots part sections, as in "kubemq.tls.ca_file".
	Name string
	// Group is the heading under which configs/celery.yaml shows it.
	Group string
	// Kind, Choices (for Choice, and words that an Int takes besides numbers) and
	// Range say which values are allowed.
	Kind    Kind
	Choices []string
	Range   *Range
	// Fields are the keys that a setting of kind Options takes.
	Fields []Setting
	// Default is the default as YAML text; "" is null. Null is allowed where the
	// default is null or Nullable is set.
	Default  string
	Nullable bool
	// Support and Note say whether the worker acts on it, and if not, why.
	Support Support
	Note    string
	// Quiet is a value, as YAML text, that describes what this worker does
	// anyway, so that giving it draws no warning.
	Quiet string
	// Old is Celery's old upper-case name where it doesn't follow Celery's rule.
	Old string
	// For names the setting that an option of a KubeMQ connection stands for.
	For string
	// Doc says in a sentence what it does.
	Doc string
}

// Env is the environment variable of the setting, such as
// "LOVAGE_WORKER_CONCURRENCY".
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(s.flat())
}

// Allowed says which values the setting takes, as error messages do.
func (s Setting) Allowed() string {
	switch {
	case s.Kind == Choice:
		return oneOf(s.Choices)
	case len(s.Choices) > 0:
		return fmt.Sprintf("%s or %s", s.numbers(), oneOf(s.Choices))
	default:
		return s.numbers()
	}
}

func (s Setting) numbers() string {
	if s.Range == nil {
		return string(s.Kind)
	}
	return fmt.Sprintf("%s, %s", s.Kind, s.Range)
}

func (s Setting) flat() string {
	return strings.ReplaceAll(s.Name, ".", "_")
}

func (s Setting) nullable() bool {
	return s.Nullable || s.Default == ""
}

func oneOf(choices []string) string {
	if len(choices) == 1 {
		return choices[0]
	}
	return "one of " + strings.Join(choices, ", ")
}
