package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

func (d *dlqTool) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show QUEUE ID", Short: "Show all of a dead letter: why it is one, its headers, its arguments", Args: cobra.ExactArgs(2),
		Long: "ID is the task's id; for a letter without one, or where several have the same, the\n" +
			"broker's id of the message.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.look(cmd.Context(), args[0], func(ctx context.Context, box *letterBox) error {
				found, err := box.byID(ctx, args[1])
				if err != nil {
					return err
				}
				return d.printShown(found)
			})
		},
	}
}

// byID finds the messages of the letters that go by an id; none is an error.
func (b *letterBox) byID(ctx context.Context, id string) (found []*kubemq.QueueMessage, err error) {
	err = b.scan(ctx, func(l letter, message *kubemq.QueueMessage) {
		if l.goesBy(id) {
			found = append(found, message)
		}
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no letter in %q goes by the id %q", b.queue, id)
	}
	return found, err
}

// shownLetter is all of a letter, as --json prints it.
type shownLetter struct {
	listedLetter
	Traceback string            `json:"traceback"`
	Tags      map[string]string `json:"tags"`
	Metadata  string            `json:"metadata"`
	Body      []byte            `json:"body"` // base64, as it may be anything
	// What is in the body, as far as it can be decoded; NotDecoded says why not.
	ContentType string          `json:"content_type,omitempty"`
	Headers     json.RawMessage `json:"headers,omitempty"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	NotDecoded  string          `json:"not_decoded,omitempty"`
}

func shownOf(message *kubemq.QueueMessage) shownLetter {
	l := letterOf(message)
	shown := shownLetter{
		listedLetter: l.listed(), Traceback: l.Traceback, Tags: message.Tags, Metadata: message.Metadata, Body: message.Body,
	}
	if err := shown.open(); err != nil {
		shown.NotDecoded = err.Error()
	}
	return shown
}

// open decodes the body as far as that is safe.
func (s *shownLetter) open() error {
	envelope, err := protocol.DecodeEnvelope(s.Body, protocol.DefaultLimits())
	switch {
	case err != nil && s.openRayServe():
		return nil
	case err != nil:
		return err
	}
	s.ContentType = envelope.ContentType
	if s.Headers, err = jsonOf(envelope.Headers); err != nil {
		return err
	}
	payload, err := payloadOf(envelope)
	if err != nil {
		return err
	}
	s.Payload, err = jsonOf(payload)
	return err
}

// payloadOf decodes the arguments, whatever safe serializer and compression they
// have.
func payloadOf(envelope *protocol.Envelope) (any, error) {
	accept, err := protocol.NewAccept([]string{"json", "yaml", "msgpack"})
	if err != nil {
		return nil, err
	}
	body, limits := envelope.Body, protocol.DefaultLimits()
	if compression, _ := envelope.Headers["compression"].(string); compression != "" {
		if body, err = protocol.Decompress(compression, body, limits.Body); err != nil {
			return nil, err
		}
	}
	return protocol.Deserialize(body, envelope.ContentType, envelope.ContentEncoding, accept, limits)
}

// jsonOf is a value as JSON; as the text of Python's JSON where only that can hold
// it (NaN).
func jsonOf(value any) (json.RawMessage, error) {
	text, err := protocol.EncodeJSON(value)
	if err == nil && !json.Valid(text) {
		text, err = json.Marshal(string(text))
	}
	return text, err
}

func (d *dlqTool) printShown(messages []*kubemq.QueueMessage) error {
	shown := make([]shownLetter, len(messages))
	for i, message := range messages {
		shown[i] = shownOf(message)
	}
	if d.json {
		return d.printJSON(shown)
	}
	for i := range shown {
		if _, err := d.out.Write(shown[i].text()); err != nil {
			return err
		}
	}
	return nil
}

// text is a letter for people.
func (s *shownLetter) text() []byte {
	var out bytes.Buffer
	for _, line := range [][2]string{
		{"task", s.Task}, {"id", s.ID}, {"message id", s.MessageID}, {"from", s.From},
		{"attempts", strconv.Itoa(s.Attempts)}, {"reason", cmp.Or(s.Reason, rerouted(letter{Rerouted: s.Rerouted}))},
		{"first error", s.FirstError}, {"last error", s.Error}, {"worker", s.Worker}, {"time", s.Time.Format(time.RFC3339Nano)},
	} {
		fmt.Fprintf(&out, "%-13s%s\n", line[0]+":", cmp.Or(plain(line[1]), "-"))
	}
	writeLines(&out, "traceback", s.Traceback)
	writeLines(&out, "headers", pretty(s.Headers))
	writeLines(&out, fmt.Sprintf("payload (%s)", cmp.Or(plain(s.ContentType), "unknown type")), pretty(s.Payload))
	if s.NotDecoded != "" {
		writeLines(&out, "not decoded", s.NotDecoded)
		writeLines(&out, fmt.Sprintf("body (%d bytes)", len(s.Body)), short(string(s.Body), maxShownBody))
	}
	return append(out.Bytes(), '\n')
}

// maxShownBody bounds what is shown of a body that can't be decoded, in characters.
const maxShownBody = 2000

// writeLines writes a text of several lines under a title, if there is any.
func writeLines(out *bytes.Buffer, title, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(out, "%s:\n", title)
	for line := range strings.Lines(text) {
		fmt.Fprintf(out, "  %s\n", plain(strings.TrimRight(line, "\r\n")))
	}
}

func pretty(text json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, text, "", "  ") != nil {
		return string(text)
	}
	return out.String()
}
