package binding

import (
	"fmt"
	"strings"
)

// The texts below are CPython 3.11's, letter by letter: a Python developer reads
// them in AsyncResult.traceback and knows at once what they mean.

// wrongKeyword is the error of a keyword that no parameter takes, or that names
// one which has its value from a position.
func (s *Signature) wrongKeyword(name string) error {
	if _, known := s.byName[name]; known {
		return s.fail("got multiple values for argument '%s'", cut(name))
	}
	return s.fail("got an unexpected keyword argument '%s'", cut(name))
}

func (s *Signature) tooMany(given int, call []argument) error {
	needed := 0
	for _, p := range s.parameters[:s.positional] {
		if !p.optional {
			needed++
		}
	}
	takes := fmt.Sprintf("%d positional argument%s", s.positional, plural(s.positional))
	if needed < s.positional {
		takes = fmt.Sprintf("from %d to %d positional arguments", needed, s.positional)
	}
	keywordOnly := 0
	for _, a := range call[s.positional:] {
		if a.given {
			keywordOnly++
		}
	}
	were := "were"
	if given == 1 {
		were = "was"
	}
	if keywordOnly == 0 {
		return s.fail("takes %s but %d %s given", takes, given, were)
	}
	return s.fail("takes %s but %d positional argument%s (and %d keyword-only argument%s) were given",
		takes, given, plural(given), keywordOnly, plural(keywordOnly))
}

// missing reports the parameters without a value: the positional ones, or else
// the keyword-only ones.
func (s *Signature) missing(call []argument) error {
	if names := missingNames(s.parameters[:s.positional], call); len(names) > 0 {
		return s.fail("missing %d required positional argument%s: %s", len(names), plural(len(names)), enumerate(names))
	}
	if names := missingNames(s.parameters[s.positional:], call[s.positional:]); len(names) > 0 {
		return s.fail("missing %d required keyword-only argument%s: %s", len(names), plural(len(names)), enumerate(names))
	}
	return nil
}

func missingNames(parameters []parameter, call []argument) []string {
	var names []string
	for i := range parameters {
		if !call[i].given && !parameters[i].optional {
			names = append(names, "'"+parameters[i].name+"'")
		}
	}
	return names
}

func (s *Signature) fail(format string, values ...any) error {
	return &Error{Function: s.function, Text: s.function + "() " + fmt.Sprintf(format, values...)}
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// enumerate is Python's "'x'", "'x' and 'y'", "'x', 'y', and 'z'".
func enumerate(names []string) string {
	last := len(names) - 1
	switch last {
	case 0:
		return names[0]
	case 1:
		return names[0] + " and " + names[1]
	default:
		return strings.Join(names[:last], ", ") + ", and " + names[last]
	}
}

// Refuse is the error of a handler that finds its arguments wrong itself.
func (s *Signature) Refuse(err error) error {
	return &Error{Function: s.function, Text: s.function + "() " + err.Error(), Err: err}
}
