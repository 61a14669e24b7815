package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/protocol"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// call is a task to publish from the command line.
type call struct {
	task      string
	args      []any
	kwargs    map[string]any
	queue     string
	countdown time.Duration
	timeout   time.Duration
	noWait    bool
}

func (p *program) callCommand() *cobra.Command {
	var c call
	var pairs []string
	cmd := &cobra.Command{
		Use:   "call TASK [ARG ...]",
		Short: "Publish a task, wait for it and print its result",
		Long: "Publishes a Celery message. An argument is JSON, or a text where it is not JSON:\n\n" +
			"  worker call demo.add 2 3\n" +
			"  worker call demo.greet Ada --kwarg greeting=Hi",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.task, c.args, c.kwargs = args[0], []any{}, map[string]any{}
			for _, arg := range args[1:] {
				c.args = append(c.args, argument(arg))
			}
			for _, pair := range pairs {
				name, value, found := strings.Cut(pair, "=")
				if !found {
					return fmt.Errorf("--kwarg %q is not name=value", pair)
				}
				c.kwargs[name] = argument(value)
			}
			return p.call(cmd.Context(), c)
		},
	}
	cmd.Flags().StringArrayVar(&pairs, "kwarg", nil, "keyword argument, name=value; may be given again")
	cmd.Flags().StringVarP(&c.queue, "queue", "Q", "", "queue to publish to (default: the first one the worker consumes)")
	cmd.Flags().DurationVar(&c.countdown, "countdown", 0, "run the task after so long")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 30*time.Second, "how long to wait for the result")
	cmd.Flags().BoolVar(&c.noWait, "no-wait", false, "print the task's id and don't wait")
	return cmd
}

// argument is JSON where it can be, else a text.
func argument(text string) any {
	if value, err := protocol.DecodeJSON([]byte(text), protocol.DefaultLimits()); err == nil {
		return value
	}
	return text
}

func (p *program) call(ctx context.Context, c call) error {
	settings, err := p.load(p.callDefaults(), func(config.Warning) {})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	id, err := publishCall(ctx, settings, c)
	if err != nil {
		return failed(err)
	}
	if c.noWait || settings.Results.Backend == config.BackendDisabled {
		_, err := fmt.Fprintln(p.out, id)
		return err
	}
	meta, err := awaitResult(ctx, settings, id)
	if err != nil {
		return failed(fmt.Errorf("no result of %s[%s] within %v: %w", c.task, id, c.timeout, err))
	}
	return p.printResult(meta)
}

// callDefaults: without a configuration the broker is the one that the quick
// start runs on this machine.
func (p *program) callDefaults() []string {
	if p.flags.config != "" {
		return nil
	}
	const local = "kubemq://localhost:50000"
	var pairs []string
	for variable, setting := range map[string]string{"CELERY_BROKER_URL": "broker_url", "CELERY_RESULT_BACKEND": "result_backend"} {
		if os.Getenv(variable) == "" {
			pairs = append(pairs, setting+"="+local)
		}
	}
	return pairs
}

func publishCall(ctx context.Context, settings *config.Settings, c call) (id string, err error) {
	client := kubemqConfig(settings.Broker.Publish, transport.Hooks{})
	client.Strategy = kubemq.StrategySingle // consumes nothing: a probe would leave a queue on the server for each call
	connection, err := kubemq.New(client)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, connection.Stop()) }()
	if err := connection.Start(ctx); err != nil {
		return "", err
	}
	if c.queue == "" {
		c.queue = settings.Worker.Queues[0]
	}
	message := &protocol.Message{
		Task: c.task, ID: uuid.NewString(), Args: c.args, Kwargs: c.kwargs, Queue: c.queue,
		ArgsRepr: protocol.ReprArgs(c.args), KwargsRepr: protocol.Repr(c.kwargs, protocol.ReprLimit), Origin: origin(),
	}
	message.RootID = message.ID
	outgoing := transport.Outgoing{}
	if c.countdown > 0 {
		message.ETA = time.Now().Add(c.countdown).In(settings.Worker.Timezone)
		outgoing.Delay = min(c.countdown.Truncate(time.Second), connection.Capabilities().MaxDelay)
	}
	envelope, err := protocol.EncodeMessage(message, protocol.EncodeOptions{
		Protocol: settings.Worker.TaskProtocol, Serializer: settings.Worker.TaskSerializer, Compression: settings.Worker.TaskCompression,
	})
	if err != nil {
		return "", err
	}
	if outgoing.Body, outgoing.Headers, err = envelope.Wire(uuid.NewString()); err != nil {
		return "", err
	}
	return message.ID, connection.Publish(ctx, c.queue, outgoing)
}

func awaitResult(ctx context.Context, settings *config.Settings, id string) (meta protocol.Meta, err error) {
	backend, err := resultskubemq.New(resultskubemq.Config{Connection: kubemqConfig(settings.Results.KubeMQ, transport.Hooks{})})
	if err != nil {
		return protocol.Meta{}, err
	}
	defer func() { err = errors.Join(err, backend.Stop()) }()
	if err := backend.Start(ctx); err != nil {
		return protocol.Meta{}, err
	}
	return backend.Wait(ctx, id)
}

// printResult prints a return value as JSON; a failure is the exit code too.
func (p *program) printResult(meta protocol.Meta) error {
	if meta.Status != protocol.StateSuccess {
		text := string(meta.Status)
		if exception, ok := meta.Result.(protocol.Exception); ok {
			text += ": " + exception.String()
		}
		return failed(errors.New(text))
	}
	value, err := protocol.EncodeJSON(meta.Result)
	if err != nil {
		return failed(err)
	}
	_, err = fmt.Fprintf(p.out, "%s\n", value)
	return err
}

// origin is the node that publishes, in Celery's form for clients.
func origin() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("gen%d@%s", os.Getpid(), host)
}
