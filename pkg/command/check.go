package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// checkCommand validates without starting: everything that New would refuse.
func (p *program) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check [-- setting=value ...]", Short: "Check the configuration and the tasks without starting",
		RunE: func(_ *cobra.Command, args []string) error {
			settings, err := p.load(args, p.warn)
			if err != nil {
				return err
			}
			return p.check(settings)
		},
	}
}

func (p *program) check(settings *config.Settings) error {
	if err := p.registry.Err(); err != nil {
		return err
	}
	if err := checkNames(settings.Worker); err != nil {
		return err
	}
	if _, err := taskRoutes(settings.Worker.TaskRoutes); err != nil {
		return err
	}
	if err := checkSentry(settings.Sentry); err != nil {
		return err
	}
	if err := checkConnections(settings); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.out, "configuration is valid: %d queues, %s slots, %d tasks\n%s",
		len(settings.Worker.Queues), slotsText(settings.Worker), len(p.registry.Names()), queuesText(settings.Worker))
	return err
}

// checkConnections reads the files that the connections and the embedded broker need,
// and connects to nobody.
func checkConnections(settings *config.Settings) error {
	var servers []config.KubeMQ
	if !settings.Broker.Embedded {
		servers = append(servers, settings.Broker.Consume)
	} else if err := checkEmbedded(settings.EmbeddedBroker); err != nil {
		return err
	}
	if settings.Results.Backend == config.BackendKubeMQ {
		servers = append(servers, settings.Results.KubeMQ)
	}
	for _, server := range servers {
		client, err := kubemq.NewClient(kubemqConfig(server, transport.Hooks{}))
		if err != nil {
			return err
		}
		if err := client.Close(); err != nil {
			return err
		}
	}
	return nil
}

func checkEmbedded(settings config.EmbeddedBroker) error {
	embedded, err := brokerConfig(settings)
	if err != nil {
		return err
	}
	_, err = broker.New(embedded) // opens and starts nothing
	return err
}

// checkNames refuses queues that the broker can't have: those that are consumed
// and those that messages are moved to. The latter must not be among the former,
// also not under another name of the same channel: a message would come back for
// ever.
func checkNames(w config.Worker) error {
	consumed := map[string]bool{}
	for _, queue := range w.Queues {
		channel, err := kubemq.ChannelName(queue)
		if err != nil {
			return fmt.Errorf("task_queues: %w", err)
		}
		consumed[channel] = true
	}
	target := func(setting, queue string) error {
		channel, err := kubemq.ChannelName(queue)
		if err != nil {
			return fmt.Errorf("%s: %w", setting, err)
		}
		if consumed[channel] {
			return fmt.Errorf("%s: %q is the channel %q, which this worker consumes", setting, queue, channel)
		}
		return nil
	}
	if err := checkRayServeNames(w, target); err != nil {
		return err
	}
	if w.DeadLetterQueue != "" {
		if err := target("dead_letter_queue", w.DeadLetterQueue); err != nil {
			return err
		}
	}
	if w.UnprocessableQueue == "" {
		return nil
	}
	for _, queue := range w.CeleryQueues() {
		if err := target("unprocessable_queue", strings.ReplaceAll(w.UnprocessableQueue, "%s", queue)); err != nil {
			return err
		}
	}
	return nil
}
