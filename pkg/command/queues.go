package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/config"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	resultsrayserve "github.com/lovage-project/lovage/pkg/results/rayserve"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

const (
	// connectPatience is how long the queue commands try to reach the broker.
	connectPatience = 10 * time.Second
	// peekWait is what servers wait at least when a queue has less than was asked for.
	peekWait = time.Second
	// maxPeek is the most that servers show at once.
	maxPeek = kubemq.MaxPeek
)

// queuesCommand looks at the queues of the broker and tidies them up.
func (p *program) queuesCommand() *cobra.Command {
	q := &queueTool{program: p}
	var all bool
	cmd := &cobra.Command{
		Use: "queues", Short: "List the broker's queues; peek at, purge or move their messages", Args: cobra.NoArgs,
		Long: "Asks the broker of the configuration, embedded or KubeMQ; without a configuration\n" +
			"the one on this machine.\n\n" +
			"The depth counts messages that are ready or in flight; delayed ones are not in it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return q.with(cmd.Context(), func(ctx context.Context, client *kubemq.Client) error { return q.list(ctx, client, all) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "the queues of results and the workers' own too, which --json always has")
	cmd.PersistentFlags().BoolVar(&q.json, "json", false, "print JSON")
	cmd.PersistentFlags().StringVarP(&q.url, "broker", "b", "", "URL of the broker")
	cmd.AddCommand(q.peekCommand(), q.purgeCommand(), q.moveCommand())
	return cmd
}

// queueTool is one run of a queue command.
type queueTool struct {
	*program
	json bool
	url  string
}

func (q *queueTool) peekCommand() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use: "peek NAME", Short: "Show the oldest ready messages of a queue and leave them there", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 1 || most > maxPeek {
				return fmt.Errorf("--limit %d is not between 1 and %d", most, maxPeek)
			}
			return q.onQueues(cmd.Context(), args, func(ctx context.Context, client *kubemq.Client, channels []string) error {
				return q.peek(ctx, client, channels[0], most)
			})
		},
	}
	cmd.Flags().IntVar(&most, "limit", 10, "how many messages at most")
	return cmd
}

func (q *queueTool) purgeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "purge NAME", Short: "Delete the ready messages of a queue, not those in flight or delayed", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.onQueues(cmd.Context(), args, func(ctx context.Context, client *kubemq.Client, channels []string) error {
				return q.purge(ctx, client, channels[0])
			})
		},
	}
}

func (q *queueTool) moveCommand() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use: "move FROM TO", Short: "Move the ready messages of a queue to the end of another", Args: cobra.ExactArgs(2),
		Long: "Moves messages as they are, one after the other: a copy is confirmed before its\n" +
			"original is acked, so a failure can leave a message in both queues, never in none.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 0 {
				return fmt.Errorf("--limit %d is negative", most)
			}
			return q.onQueues(cmd.Context(), args, func(ctx context.Context, client *kubemq.Client, channels []string) error {
				return q.move(ctx, client, channels[0], channels[1], most)
			})
		},
	}
	cmd.Flags().IntVar(&most, "limit", 0, "how many messages at most; 0 = all")
	return cmd
}

// onQueues is with for queues that are given by their names in Celery.
func (q *queueTool) onQueues(
	ctx context.Context, names []string, use func(ctx context.Context, client *kubemq.Client, channels []string) error,
) error {
	channels := make([]string, len(names))
	for i, name := range names {
		channel, err := kubemq.ChannelName(name)
		if err != nil {
			return err
		}
		channels[i] = channel
	}
	if len(channels) == 2 && channels[0] == channels[1] {
		return errors.New("FROM and TO are the same queue")
	}
	return q.with(ctx, func(ctx context.Context, client *kubemq.Client) error { return use(ctx, client, channels) })
}

// settings are those of the configuration, with the broker that was asked for.
func (q *queueTool) settings() (*config.Settings, error) {
	pairs := q.callDefaults()
	if q.url != "" {
		pairs = append(pairs, "broker_url="+q.url)
	}
	return q.load(pairs, func(config.Warning) {})
}

// with connects to the broker for one use.
func (q *queueTool) with(ctx context.Context, use func(context.Context, *kubemq.Client) error) error {
	settings, err := q.settings()
	if err != nil {
		return err
	}
	client, err := kubemq.NewClient(kubemqConfig(settings.Broker.Consume, transport.Hooks{}))
	if err != nil {
		return err
	}
	connecting, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	err = client.Connect(connecting, nil)
	if err == nil {
		err = use(ctx, client)
	}
	if err = errors.Join(err, client.Close()); err != nil {
		return failed(err)
	}
	return nil
}

// listedQueue is a queue as --json prints it.
type listedQueue struct {
	Name      string `json:"name"`
	Depth     int64  `json:"depth"`
	Sent      int64  `json:"sent"`
	Delivered int64  `json:"delivered"`
	Consumers int64  `json:"consumers"`
}

// list shows the queues of tasks. There is a queue for each result and each noted
// start, among which nobody would find them.
func (q *queueTool) list(ctx context.Context, client *kubemq.Client, all bool) error {
	found, err := client.Queues(ctx)
	if err != nil {
		return err
	}
	listed := make([]listedQueue, len(found))
	var rows [][]any
	for i, one := range found {
		listed[i] = listedQueue(one)
		if all || !isPlumbing(one.Name) {
			rows = append(rows, []any{printable(one.Name), one.Depth, one.Sent, one.Delivered, one.Consumers})
		}
	}
	if q.json {
		return q.printJSON(listed)
	}
	if err := q.printTable("QUEUE\tDEPTH\tSENT\tDELIVERED\tCONSUMERS", rows); err != nil {
		return err
	}
	if hidden := len(found) - len(rows); hidden > 0 {
		q.complain(fmt.Sprintf("and %d queues of results and of the workers' own: --all shows them", hidden))
	}
	return nil
}

// isPlumbing tells queues without tasks by their names.
func isPlumbing(channel string) bool {
	return strings.HasPrefix(channel, resultskubemq.DefaultPrefix) || strings.HasPrefix(channel, resultsrayserve.DefaultPrefix) ||
		kubemq.IsOwnChannel(channel)
}

// peekedMessage is a message as --json prints it.
type peekedMessage struct {
	ID         string            `json:"id"`
	Sequence   uint64            `json:"sequence"`
	Queued     time.Time         `json:"queued"`
	Deliveries int32             `json:"deliveries"`
	Metadata   string            `json:"metadata"`
	Tags       map[string]string `json:"tags"`
	Body       []byte            `json:"body"` // base64, as it may be anything
}

func (q *queueTool) peek(ctx context.Context, client *kubemq.Client, channel string, most int) error {
	found, err := client.Peek(ctx, channel, most, peekWait)
	if err != nil {
		return err
	}
	peeked := make([]peekedMessage, len(found))
	rows := make([][]any, len(found))
	for i, m := range found {
		one := peekedMessage{
			ID: m.MessageID, Sequence: m.Attributes.GetSequence(), Queued: time.Unix(0, m.Attributes.GetTimestamp()).UTC(),
			// What is peeked at counts as one more, as if it were delivered.
			Deliveries: max(0, m.Attributes.GetReceiveCount()-1),
			Metadata:   m.Metadata, Tags: m.Tags, Body: m.Body,
		}
		peeked[i] = one
		task, id := taskOf(m)
		rows[i] = []any{one.Sequence, one.Queued.Format(time.RFC3339), one.Deliveries, len(one.Body), printable(task), printable(id)}
	}
	if q.json {
		return q.printJSON(peeked)
	}
	return q.printTable("SEQUENCE\tQUEUED\tDELIVERIES\tBYTES\tTASK\tID", rows)
}

// taskOf reads the task's name and id from a message's headers, or from the body of a
// Ray Serve task; another message without Celery's headers has none.
func taskOf(m *kubemq.QueueMessage) (task, id string) {
	var headers struct {
		Task string `json:"task"`
		ID   string `json:"id"`
	}
	if json.Unmarshal([]byte(m.Metadata), &headers) == nil {
		return headers.Task, headers.ID
	}
	task, id = identifyRayServe(m.Body, letterLimits())
	return cmp.Or(task, "-"), cmp.Or(id, "-")
}

func (q *queueTool) purge(ctx context.Context, client *kubemq.Client, channel string) error {
	var total uint64
	for {
		n, err := client.Purge(ctx, channel)
		if err != nil {
			return fmt.Errorf("after %d messages: %w", total, err)
		}
		total += n
		if n == 0 {
			break
		}
	}
	if q.json {
		return q.printJSON(map[string]any{"queue": channel, "purged": total})
	}
	_, err := fmt.Fprintf(q.out, "%d messages purged from %s\n", total, channel)
	return err
}

func (q *queueTool) move(ctx context.Context, client *kubemq.Client, from, to string, most int) error {
	moved, err := client.Move(ctx, from, to, most)
	if err != nil {
		return fmt.Errorf("after %d messages: %w", moved, err)
	}
	if q.json {
		return q.printJSON(map[string]any{"from": from, "to": to, "moved": moved})
	}
	_, err = fmt.Fprintf(q.out, "%d messages moved from %s to %s\n", moved, from, to)
	return err
}

func (q *queueTool) printJSON(value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(q.out, "%s\n", text)
	return err
}

func (q *queueTool) printTable(header string, rows [][]any) error {
	table := tabwriter.NewWriter(q.out, 0, 0, 2, ' ', 0)
	lines := append(make([]string, 0, 1+len(rows)), header)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = fmt.Sprint(cell)
		}
		lines = append(lines, strings.Join(cells, "\t"))
	}
	if _, err := fmt.Fprintln(table, strings.Join(lines, "\n")); err != nil {
		return err
	}
	return table.Flush()
}

// printable quotes a text that could do something to a terminal: names come from
// whoever sends messages.
func printable(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}
