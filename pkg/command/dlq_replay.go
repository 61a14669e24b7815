package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// errNoLetters asks for a decision.
var errNoLetters = errors.New("which letters? give a filter, such as --task or --id, or --all")

// letterWork is what replay and purge do with the letters of a queue.
type letterWork struct {
	filter      letterFilter
	all, dryRun bool
	// did and would are its verb.
	did, would string
	// target is the queue that a letter goes to, an error where none is known; nil
	// for letters that go nowhere.
	target func(letter) (string, error)
}

// doneLetter is a letter that was worked on, as --json prints it.
type doneLetter struct {
	Action    string `json:"action"`
	DryRun    bool   `json:"dry_run,omitempty"`
	Task      string `json:"task"`
	ID        string `json:"id"`
	MessageID string `json:"message_id"`
	To        string `json:"to,omitempty"`
}

func (d *dlqTool) replayCommand() *cobra.Command {
	var to string
	work := &letterWork{did: "replayed", would: "would replay"}
	cmd := &cobra.Command{
		Use: "replay QUEUE", Short: "Put dead letters back into the queue they come from", Args: cobra.ExactArgs(1),
		Long: "Puts letters back as the messages they were, byte for byte: without what was written\n" +
			"beside them, and with their attempts starting again. The retries that their headers\n" +
			"count stay; see edit.",
		RunE: func(cmd *cobra.Command, args []string) error {
			work.target = func(l letter) (string, error) { return targetOf(l, args[0], to) }
			return d.work(cmd.Context(), args[0], work)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "queue to put them into instead")
	work.add(cmd)
	return cmd
}

func (d *dlqTool) purgeCommand() *cobra.Command {
	work := &letterWork{did: "purged", would: "would purge"}
	cmd := &cobra.Command{
		Use: "purge QUEUE", Short: "Delete dead letters", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return d.work(cmd.Context(), args[0], work) },
	}
	work.add(cmd)
	return cmd
}

func (w *letterWork) add(cmd *cobra.Command) {
	w.filter.add(cmd)
	cmd.Flags().BoolVar(&w.all, "all", false, "all letters, where no filter is given")
	cmd.Flags().BoolVar(&w.dryRun, "dry-run", false, "print what would be done and do nothing")
}

// targetOf is the queue to put a letter into: the one that is asked for, or the one
// that it comes from.
func targetOf(l letter, queue, to string) (string, error) {
	target := cmp.Or(to, l.From)
	if target == "" {
		return "", fmt.Errorf("%s: nothing tells which queue it comes from; --to names one", l.name())
	}
	if _, err := kubemq.ChannelName(target); err != nil {
		return "", fmt.Errorf("%s: %w", l.name(), err)
	}
	if sameChannel(target, queue) {
		return "", fmt.Errorf("%s: it would go back into %q; --to names another queue", l.name(), queue)
	}
	return target, nil
}

// work does it, prints what was done and fails for the letters that have no target.
func (d *dlqTool) work(ctx context.Context, queue string, w *letterWork) error {
	if !w.all && !w.filter.given() {
		return errNoLetters
	}
	if err := w.filter.check(); err != nil {
		return err
	}
	open := d.take
	if w.dryRun {
		open = d.look
	}
	return open(ctx, queue, func(ctx context.Context, box *letterBox) error {
		r := &letterRun{letterWork: w, tool: d, refused: map[uint64]error{}, done: []doneLetter{}}
		err := r.run(ctx, box)
		err = errors.Join(err, r.unprinted)
		if d.json {
			err = errors.Join(err, d.printJSON(r.done))
		} else if len(r.done) == 0 {
			d.complain("no letter to work on in " + queue)
		}
		for _, sequence := range slices.Sorted(maps.Keys(r.refused)) {
			err = errors.Join(err, r.refused[sequence])
		}
		return err
	})
}

// letterRun is one run of replay or purge.
type letterRun struct {
	*letterWork
	tool *dlqTool
	// refused are the letters without a target, by their sequence.
	refused map[uint64]error
	done    []doneLetter
	// unprinted is why a line could not be printed. The work goes on all the same:
	// what was sent is to be removed.
	unprinted error
}

func (r *letterRun) run(ctx context.Context, box *letterBox) error {
	if !r.dryRun {
		return box.take(ctx, r.filter.limit, r.wants, func(ctx context.Context, l letter, message *kubemq.QueueMessage) error {
			return r.apply(ctx, box.client, l, message)
		})
	}
	found, err := box.find(ctx, r.filter.limit, r.wants)
	for _, l := range found {
		to, _ := r.to(l) // it is wanted, so it has one
		r.note(l, to)
	}
	return err
}

func (r *letterRun) wants(l letter) bool {
	if !r.filter.wants(l) {
		return false
	}
	_, err := r.to(l)
	if err != nil {
		r.refused[l.Sequence] = err
	}
	return err == nil
}

func (r *letterRun) to(l letter) (string, error) {
	if r.target == nil {
		return "", nil
	}
	return r.target(l)
}

// apply does the work on one letter, before that is removed.
func (r *letterRun) apply(ctx context.Context, client *kubemq.Client, l letter, message *kubemq.QueueMessage) error {
	to, err := r.to(l)
	if err != nil {
		return err
	}
	if to != "" {
		if err := sendTo(ctx, client, r.tool.restored(message, to), to); err != nil {
			return err
		}
	}
	r.note(l, to)
	return nil
}

// sendTo sends a message to a queue by its name in Celery.
func sendTo(ctx context.Context, client *kubemq.Client, message *kubemq.QueueMessage, queue string) error {
	channel, err := kubemq.ChannelName(queue)
	if err != nil {
		return err
	}
	message.Channel = channel
	return client.Send(ctx, message)
}

// note prints a line and keeps the letter for --json.
func (r *letterRun) note(l letter, to string) {
	r.done = append(r.done, doneLetter{
		Action: r.did, DryRun: r.dryRun, Task: l.Task, ID: l.ID, MessageID: l.MessageID, To: to,
	})
	if r.tool.json {
		return
	}
	line := r.did
	if r.dryRun {
		line = r.would
	}
	line += " " + l.name()
	if to != "" {
		line += " to " + plain(to)
	}
	if _, err := fmt.Fprintln(r.tool.out, line); err != nil {
		r.unprinted = err
	}
}
