package worker

import (
	"errors"
	"maps"
	"strings"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport"
)

// storedText bytes are kept of each long text in a record that can't be stored as it
// is, and storedArgs arguments of its exception.
const (
	storedText = 1000
	storedArgs = 4
)

// unstorable tells whether it is the record itself that can't be stored.
func unstorable(err error) bool {
	if err == nil {
		return false
	}
	var encode *protocol.EncodeError
	return errors.Is(err, transport.ErrTooLarge) || errors.As(err, &encode)
}

// shorten leaves out of a record what its state doesn't need, the arguments that
// Options.ResultExtended adds, and the ends of an exception's texts. It is false
// where all of the record is needed.
func shorten(m *protocol.Meta) bool {
	shorter := false
	for _, name := range []string{"args", "kwargs"} {
		if _, has := m.Extra[name]; has {
			if !shorter {
				m.Extra = maps.Clone(m.Extra)
			}
			delete(m.Extra, name)
			shorter = true
		}
	}
	if exception, failed := m.Result.(protocol.Exception); failed {
		exception.Args = shortArgs(exception.Args)
		m.Result, m.Traceback = exception, shortText(m.Traceback)
		shorter = true
	}
	return shorter
}

func shortArgs(args []any) []any {
	short := make([]any, 0, storedArgs)
	for _, arg := range args[:min(len(args), storedArgs)] {
		switch arg := arg.(type) {
		case nil, bool, int64, float64:
			short = append(short, arg)
		case string:
			short = append(short, shortText(arg))
		default:
			short = append(short, protocol.Repr(arg, storedText))
		}
	}
	return short
}

func shortText(text string) string {
	if len(text) <= storedText {
		return text
	}
	return strings.ToValidUTF8(text[:storedText], "") + "…"
}
