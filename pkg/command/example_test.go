package command_test

import (
	"context"
	"errors"
	"os"

	"github.com/getsentry/sentry-go"

	"github.com/lovage-project/lovage/pkg/command"
	"github.com/lovage-project/lovage/pkg/tasks"
)

var errDeclined = errors.New("the card is declined")

// A program decides in code what reaches Sentry. The error that the handler
// returned is in the hint.
func ExampleWithSentry() {
	r := tasks.NewRegistry()
	beforeSend := func(event *sentry.Event, hint *sentry.EventHint) *sentry.Event {
		if errors.Is(hint.OriginalException, errDeclined) {
			return nil // not reported
		}
		event.Tags["team"] = "payments"
		return event
	}
	command.Run(context.Background(), r, []string{"version"}, os.Stdout, os.Stderr,
		command.WithSentry(func(o *sentry.ClientOptions) { o.BeforeSend = beforeSend }))
	// Output: lovage dev
}
