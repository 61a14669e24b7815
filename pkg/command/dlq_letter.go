package command

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// letterLimits bound what is decoded of each letter that is listed. One beyond them
// is listed without task and id.
func letterLimits() protocol.Limits {
	return protocol.Limits{Envelope: 8 << 20, Body: 8 << 20, Depth: 100, Items: 100_000}
}

// letter is what is known of a dead letter. Its texts are a stranger's.
type letter struct {
	kubemq.Letter
	MessageID string
	Sequence  uint64
	Bytes     int
	// Rerouted tells that the broker moved it, by its own rule.
	Rerouted bool
}

// letterOf reads what stands beside a letter and, where nobody wrote that, what its
// message says itself. Time is when it came into the queue then.
func letterOf(message *kubemq.QueueMessage) letter {
	l := letter{
		Letter: kubemq.LetterOf(message), MessageID: message.MessageID,
		Sequence: message.Attributes.GetSequence(), Bytes: len(message.Body), Rerouted: message.Attributes.GetReRouted(),
	}
	l.From = cmp.Or(l.From, message.Attributes.GetReRoutedFromQueue())
	if l.Time.IsZero() {
		l.Time = time.Unix(0, message.Attributes.GetTimestamp()).UTC()
	}
	if l.Task == "" || l.ID == "" {
		task, id := identify(message)
		l.Task, l.ID = cmp.Or(l.Task, task), cmp.Or(l.ID, id)
	}
	return l
}

// identify finds the task and the id of a message, in its metadata or else in its
// body, "" where it has none.
func identify(message *kubemq.QueueMessage) (task, id string) {
	if headers, err := protocol.DecodeJSON([]byte(message.Metadata), letterLimits()); err == nil {
		if task, id = named(headers); task != "" {
			return task, id
		}
	}
	envelope, err := protocol.DecodeEnvelope(message.Body, letterLimits())
	if err != nil {
		return identifyRayServe(message.Body, letterLimits())
	}
	decoded, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{Limits: letterLimits()})
	var invalid *protocol.InvalidTaskError
	switch {
	case err == nil:
		return decoded.Task, decoded.ID
	case errors.As(err, &invalid) && invalid.Task != "":
		return invalid.Task, invalid.ID
	}
	return named(envelope.Headers)
}

func named(headers any) (task, id string) {
	fields, _ := headers.(map[string]any)
	task, _ = fields["task"].(string)
	id, _ = fields["id"].(string)
	return task, id
}

// name is how a letter is called in what is printed.
func (l *letter) name() string {
	return fmt.Sprintf("%s[%s]", cmp.Or(plain(l.Task), "-"), cmp.Or(plain(l.ID), plain(l.MessageID)))
}

// goesBy tells whether id is the letter's: its task's, or the broker's, for
// letters that have no other.
func (l *letter) goesBy(id string) bool { return id == l.ID || id == l.MessageID }

// listedLetter is a letter as --json prints it.
type listedLetter struct {
	Time       time.Time `json:"time"`
	Task       string    `json:"task"`
	ID         string    `json:"id"`
	MessageID  string    `json:"message_id"`
	Sequence   uint64    `json:"sequence"`
	From       string    `json:"from"`
	Attempts   int       `json:"attempts"`
	Reason     string    `json:"reason"`
	Error      string    `json:"error"`
	FirstError string    `json:"first_error"`
	Worker     string    `json:"worker"`
	Rerouted   bool      `json:"rerouted"`
	Bytes      int       `json:"bytes"`
}

func (l *letter) listed() listedLetter {
	return listedLetter{
		Time: l.Time, Task: l.Task, ID: l.ID, MessageID: l.MessageID, Sequence: l.Sequence, From: l.From,
		Attempts: l.Attempts, Reason: l.Reason, Error: l.Detail, FirstError: l.FirstError, Worker: l.Worker,
		Rerouted: l.Rerouted, Bytes: l.Bytes,
	}
}

// plain is a line of text that does nothing to a terminal: what is not printable is
// escaped. Unlike printable it leaves quotes alone.
func plain(text string) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

// short is plain, cut to a number of characters.
func short(text string, most int) string {
	runes := []rune(plain(text))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-1]) + "…"
}
