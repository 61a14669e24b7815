package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// dlqCommand looks at dead letters, puts them back to work and tidies them up.
func (p *program) dlqCommand() *cobra.Command {
	d := &dlqTool{queueTool: &queueTool{program: p}}
	cmd := &cobra.Command{
		Use: "dlq", Short: "List, show, replay, edit or purge dead letters", Args: cobra.NoArgs,
		Long: "Works on a queue of dead letters or of unprocessable messages, on KubeMQ and on the\n" +
			"embedded broker. list and show leave the letters where they are. The others take the\n" +
			"letters they are told to, and what is before them for a moment; a copy is confirmed\n" +
			"before its original is removed, so a failure can leave a letter twice, never not at all.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().BoolVar(&d.json, "json", false, "print JSON")
	cmd.PersistentFlags().StringVarP(&d.url, "broker", "b", "", "URL of the broker")
	cmd.PersistentFlags().BoolVar(&d.deep, "deep", false,
		"take all letters for a moment and give them back, to see beyond the oldest 1,024")
	cmd.AddCommand(d.listCommand(), d.showCommand(), d.replayCommand(), d.editCommand(), d.purgeCommand())
	return cmd
}

// dlqTool is one run of a command for dead letters.
type dlqTool struct {
	*queueTool
	deep bool
	// rayServe are the configured worker's Ray Serve queues, once letters may be taken.
	rayServe []config.RayServeQueue
}

// look opens a queue whose letters stay where they are; to look deeply takes them
// all the same.
func (d *dlqTool) look(ctx context.Context, queue string, use func(context.Context, *letterBox) error) error {
	if d.deep {
		return d.take(ctx, queue, use)
	}
	return d.open(ctx, queue, use)
}

// take opens a queue whose letters may be taken. The queues of the configured worker
// are refused: what is taken there is its work.
func (d *dlqTool) take(ctx context.Context, queue string, use func(context.Context, *letterBox) error) error {
	settings, err := d.settings()
	if err != nil {
		return err
	}
	d.rayServe = settings.Worker.RayServe
	same := func(consumed string) bool { return sameChannel(consumed, queue) }
	if slices.ContainsFunc(settings.Worker.Queues, same) {
		return fmt.Errorf("%q is a queue that the worker consumes, not one of dead letters", queue)
	}
	return d.open(ctx, queue, use)
}

func (d *dlqTool) open(ctx context.Context, queue string, use func(context.Context, *letterBox) error) error {
	return d.onQueues(ctx, []string{queue}, func(ctx context.Context, client *kubemq.Client, channels []string) error {
		box, err := openBox(ctx, client, queue, channels[0], d.deep)
		if err != nil {
			return err
		}
		return errors.Join(use(ctx, box), d.noteRest(ctx, box))
	})
}

// sameChannel tells whether two queues are one on the broker.
func sameChannel(a, b string) bool {
	channelA, errA := kubemq.ChannelName(a)
	channelB, errB := kubemq.ChannelName(b)
	return errA == nil && errB == nil && channelA == channelB
}

// noteRest tells of letters that were not looked at.
func (d *dlqTool) noteRest(ctx context.Context, box *letterBox) error {
	rest, err := box.rest(ctx)
	if err != nil || rest == 0 {
		return err
	}
	text := "a consumer holds them"
	if !box.deep {
		text += ", or they are behind what the broker shows at once: --deep takes all for a moment to look at them"
	}
	d.complain(fmt.Sprintf("%d more letters of %s were not looked at: %s", rest, box.queue, text))
	return nil
}
