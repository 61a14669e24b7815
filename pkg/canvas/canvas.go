// Package canvas is about what follows the outcome of a task: chains, callbacks,
// errbacks and chords. This version only recognises them, so that a message
// which asks for one is refused whole instead of losing the rest of its workflow.
package canvas

import "github.com/lovage-project/lovage/pkg/protocol"

// Needs names what a message asks for after its task, in Celery's words; ""
// where nothing follows.
func Needs(message *protocol.Message) string {
	switch {
	case message.Chord != nil:
		return "a chord"
	case len(message.Chain) > 0:
		return "a chain"
	case len(message.Callbacks) > 0:
		return "link callbacks"
	case len(message.Errbacks) > 0:
		return "link_error callbacks"
	}
	return ""
}
