package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/config"
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
	for _, queue := range settings.Worker.Queues {
		if _, err := kubemq.ChannelName(queue); err != nil {
			return fmt.Errorf("task_queues: %w", err)
		}
	}
	_, err := fmt.Fprintf(p.out, "configuration is valid: %d queues, %d slots, %d tasks\n",
		len(settings.Worker.Queues), settings.Worker.Concurrency, len(p.registry.Names()))
	return err
}
