package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// editFlags are the flags of edit.
type editFlags struct {
	args, kwargs string
	headers      []string
	replay       bool
	to           string
}

func (d *dlqTool) editCommand() *cobra.Command {
	var f editFlags
	cmd := &cobra.Command{
		Use: "edit QUEUE ID", Short: "Change the arguments or headers of a dead letter", Args: cobra.ExactArgs(2),
		Long: "Replaces the arguments, the keyword arguments or headers of one letter and puts it\n" +
			"at the end of its queue, or with --replay back to work. Only bodies that are JSON and\n" +
			"not compressed can be edited.\n\n" +
			"  worker dlq edit failed 3f0c… --kwargs '{\"order_id\": 17}' --set-header retries=0 --replay",
		RunE: func(cmd *cobra.Command, args []string) error {
			edit, err := f.edit()
			if err != nil {
				return err
			}
			return d.take(cmd.Context(), args[0], func(ctx context.Context, box *letterBox) error {
				return d.edit(ctx, box, args[1], edit, &f)
			})
		},
	}
	cmd.Flags().StringVar(&f.args, "args", "", "arguments instead, as a JSON list")
	cmd.Flags().StringVar(&f.kwargs, "kwargs", "", "keyword arguments instead, as a JSON object")
	cmd.Flags().StringArrayVar(&f.headers, "set-header", nil, "header to set, name=JSON (or a text); may be given again")
	cmd.Flags().BoolVar(&f.replay, "replay", false, "put it back into the queue it comes from")
	cmd.Flags().StringVar(&f.to, "to", "", "with --replay: queue to put it into instead")
	return cmd
}

// edit reads what is to be changed.
func (f *editFlags) edit() (edit letterEdit, err error) {
	if f.args == "" && f.kwargs == "" && len(f.headers) == 0 {
		return edit, errors.New("nothing to change: give --args, --kwargs or --set-header")
	}
	if f.to != "" && !f.replay {
		return edit, errors.New("--to goes with --replay")
	}
	if edit.args, err = flagValue[[]any]("--args", f.args, "list"); err != nil {
		return edit, err
	}
	if edit.kwargs, err = flagValue[map[string]any]("--kwargs", f.kwargs, "object"); err != nil {
		return edit, err
	}
	edit.headers = make(map[string]any, len(f.headers))
	for _, pair := range f.headers {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return edit, fmt.Errorf("--set-header %q is not name=JSON", pair)
		}
		if name == "compression" {
			return edit, errors.New("--set-header: compression says how the body is written; it can't be set")
		}
		edit.headers[name] = argument(value)
	}
	return edit, nil
}

// flagValue reads a flag that is JSON of one kind; without it the zero value.
func flagValue[T any](flag, text, kind string) (value T, err error) {
	if text == "" {
		return value, nil
	}
	decoded, err := protocol.DecodeJSON([]byte(text), protocol.DefaultLimits())
	if err != nil {
		return value, fmt.Errorf("%s: %w", flag, err)
	}
	value, ok := decoded.(T)
	if !ok {
		return value, fmt.Errorf("%s %s is not a JSON %s", flag, short(text, widestError), kind)
	}
	return value, nil
}

// edit changes the one letter of an id.
func (d *dlqTool) edit(ctx context.Context, box *letterBox, id string, edit letterEdit, f *editFlags) error {
	found, err := box.byID(ctx, id)
	if err != nil {
		return err
	}
	if len(found) > 1 {
		return fmt.Errorf("%d letters in %q go by the id %q: give the message id that list --json tells", len(found), box.queue, id)
	}
	l, to := letterOf(found[0]), ""
	if f.replay {
		if to, err = targetOf(l, box.queue, f.to); err != nil {
			return err
		}
	}
	content, err := edit.rewrite(found[0].Body)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name(), err)
	}
	edited, destination := kubemq.Rewritten(found[0], content.body, content.metadata, content.task, content.id), box.queue
	if f.replay {
		edited, destination = d.restored(found[0], to), to
		edited.Body, edited.Metadata = content.body, content.metadata
	}
	run := &letterRun{letterWork: &letterWork{did: "edited"}, tool: d}
	this := func(other letter) bool { return other.Sequence == l.Sequence }
	err = box.take(ctx, 1, this, func(ctx context.Context, _ letter, _ *kubemq.QueueMessage) error {
		if err := sendTo(ctx, box.client, edited, destination); err != nil {
			return err
		}
		run.note(letterOf(edited), destination)
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(run.done) == 0:
		return fmt.Errorf("%s: somebody else took it from %q", l.name(), box.queue)
	case d.json:
		return d.printJSON(run.done)
	}
	return run.unprinted
}
