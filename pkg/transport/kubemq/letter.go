package kubemq

import (
	"strings"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/pkg/transport"
)

// Tags beside a dead letter (docs/protocol.md, what Lovage adds on KubeMQ). Body and
// Metadata stay as they came.
const (
	tagReason     = "lovage-reason"
	tagDetail     = "lovage-detail"
	tagQueue      = "lovage-queue"
	tagTask       = "lovage-task"
	tagID         = "lovage-id"
	tagFirstError = "lovage-first-error"
	tagTraceback  = "lovage-traceback"
	tagWorker     = "lovage-worker"
	tagTime       = "lovage-time"
)

// maxLetterText bounds each text beside a dead letter, in bytes.
const maxLetterText = 2048

// setLetter writes what is known of a dead letter from queue beside it.
func setLetter(message *pb.QueueMessage, queue string, letter transport.DeadLetter) {
	at := ""
	if !letter.Time.IsZero() {
		at = letter.Time.UTC().Format(time.RFC3339Nano)
	}
	for tag, text := range map[string]string{
		tagReason: head(letter.Reason), tagDetail: head(letter.Detail), tagQueue: head(queue),
		tagTask: head(letter.Task), tagID: head(letter.ID), tagFirstError: head(letter.FirstError),
		tagTraceback: tail(letter.Traceback), tagWorker: head(letter.Worker), tagTime: at,
	} {
		delete(message.Tags, tag)
		if text != "" {
			message.Tags[tag] = text
		}
	}
}

// Letter is what stands beside a dead letter.
type Letter struct {
	transport.DeadLetter
	// From is the Celery name of the queue it comes from, "" where nothing says it.
	From string
	// Attempts is how often it was delivered before.
	Attempts int
}

// LetterOf reads what stands beside a dead letter; of another message it is empty
// but for Attempts. The texts are a stranger's: bounded, but not to be trusted.
func LetterOf(message *pb.QueueMessage) Letter {
	tags := message.Tags
	letter := Letter{
		DeadLetter: transport.DeadLetter{
			Queue: message.Channel, Reason: head(tags[tagReason]), Detail: head(tags[tagDetail]), Task: head(tags[tagTask]),
			ID: head(tags[tagID]), FirstError: head(tags[tagFirstError]), Traceback: tail(tags[tagTraceback]),
			Worker: head(tags[tagWorker]),
		},
		From: head(tags[tagQueue]), Attempts: earlierAttempts(message),
	}
	// Without a readable time it is zero.
	letter.Time, _ = time.Parse(time.RFC3339Nano, tags[tagTime])
	return letter
}

// head and tail make text fit for a tag: other clients refuse a message with broken
// UTF-8 as a whole.
func head(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxLetterText {
		text = strings.ToValidUTF8(text[:maxLetterText], "")
	}
	return text
}

func tail(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxLetterText {
		text = strings.ToValidUTF8(text[len(text)-maxLetterText:], "")
	}
	return text
}
