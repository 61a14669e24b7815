package config

import "strings"

// Error is one mistake in the configuration, told in one line: where it was
// found, which setting, and what is wrong or allowed. [Load] joins several with
// errors.Join; errors.As finds the first.
type Error struct {
	// Origin is "celery.yaml:3", "environment variable LOVAGE_LOG_LEVEL" or
	// "command line"; empty where the mistake is in a combination.
	Origin string
	// Setting is the setting's name as it was written; empty where the source
	// itself is at fault.
	Setting string
	// Problem says what is wrong, secrets masked.
	Problem string
	// Err is the cause, such as fs.ErrNotExist; may be nil.
	Err error
}

// Error is the line for the user.
func (e *Error) Error() string {
	return "config: " + oneLine(join(e.Origin, e.Setting, e.Problem))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Warning tells of a setting that was accepted, but does not do what it says.
type Warning struct {
	// Origin and Setting are as in Error.
	Origin, Setting string
	// Text is the warning.
	Text string
}

// String is the line for the user.
func (w Warning) String() string {
	return oneLine(join(w.Origin, w.Setting, w.Text))
}

func join(parts ...string) string {
	var filled []string
	for _, part := range parts {
		if part != "" {
			filled = append(filled, part)
		}
	}
	return strings.Join(filled, ": ")
}

// oneLine keeps what came from a file name, a key or a library's message from
// breaking the line.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
