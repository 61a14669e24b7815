package kubemq

import (
	"fmt"
	"strings"

	"github.com/lovage-project/lovage/pkg/transport"
)

// maxChannelBytes is the length of a file name: a server keeps each queue in a
// directory of its name.
const maxChannelBytes = 255

// ChannelName is the name of the channel that stands for a Celery queue or
// exchange. It is the one that kubemq-celery uses, so that Python and Go share
// queues: "@", "/", "#" and "\x06" become ".", a space becomes "_", runs of dots
// become one, dots at the ends go, and what is left outside [A-Za-z0-9._-] is
// dropped. Two queues therefore share a channel only where they do in
// kubemq-celery, as "a/b" and "a.b" do.
//
// kubemq-celery drops characters last, which can bring back a leading, trailing
// or double dot that no server takes. Such a name, a name of which nothing is
// left, and a channel longer than 255 bytes are transport.ErrName.
func ChannelName(queue string) (string, error) {
	channel := queue
	if !isChannel(queue) { // most are, and stay as they are
		channel = strings.Map(func(r rune) rune {
			if isChannelRune(r) {
				return r
			}
			return -1
		}, mapped(queue))
	}
	switch {
	case channel == "":
		return "", fmt.Errorf("kubemq: queue %.100q leaves no characters for a channel name: %w", queue, transport.ErrName)
	case len(channel) > maxChannelBytes:
		return "", fmt.Errorf("kubemq: queue %.100q: channel name of %d bytes exceeds %d: %w",
			queue, len(channel), maxChannelBytes, transport.ErrName)
	case channel[0] == '.' || channel[len(channel)-1] == '.' || strings.Contains(channel, ".."):
		return "", fmt.Errorf("kubemq: queue %.100q: channel name %.100q has a misplaced dot: %w",
			queue, channel, transport.ErrName)
	}
	return channel, nil
}

// CheckChannel is for names that others use as they are, such as the queues of Ray
// Serve: one that ChannelName would change, or that no server takes, is
// transport.ErrName.
func CheckChannel(name string) error {
	channel, err := ChannelName(name)
	if err != nil {
		return err
	}
	if channel != name {
		return fmt.Errorf("kubemq: %.100q is not a channel name that is used as it is (it would become %q): %w",
			name, channel, transport.ErrName)
	}
	return nil
}

// mapped is the name before characters are dropped.
func mapped(queue string) string {
	name := strings.NewReplacer("@", ".", "/", ".", "#", ".", "\x06", ".", " ", "_").Replace(queue)
	for strings.Contains(name, "..") {
		name = strings.ReplaceAll(name, "..", ".")
	}
	return strings.Trim(name, ".")
}

// isChannel tells whether a name has nothing in it that would be changed.
func isChannel(name string) bool {
	for i := range len(name) {
		if !isChannelRune(rune(name[i])) {
			return false
		}
	}
	return !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".") && !strings.Contains(name, "..")
}

func isChannelRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// IsOwnChannel tells whether a channel is one that this package makes for itself: for
// the notes about a message's starts, and to find out what a server does.
func IsOwnChannel(channel string) bool {
	return strings.HasPrefix(channel, notesPrefix) || strings.HasPrefix(channel, probePrefix)
}
