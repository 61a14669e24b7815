package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
)

// standaloneHTTP is where KubeMQ's guides look for the HTTP side. Inside a worker it
// is off unless asked for.
const standaloneHTTP = "127.0.0.1:9090"

// brokerCommand runs the embedded broker alone.
func (p *program) brokerCommand() *cobra.Command {
	var listen, httpListen, dataDir string
	cmd := &cobra.Command{
		Use: "broker [-- setting=value ...]", Short: "Run the embedded broker alone",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("listen") {
				args = append(args, "embedded_broker.listen="+listen)
			}
			if cmd.Flags().Changed("http") {
				args = append(args, "embedded_broker.http_listen="+httpListen)
			}
			if cmd.Flags().Changed("data-dir") {
				args = append(args, "embedded_broker.data_dir="+dataDir)
			}
			fallback := standaloneHTTP
			if cmd.Flags().Changed("http") {
				fallback = httpListen
			}
			return p.serveBroker(cmd.Context(), args, fallback)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "host:port to listen on (embedded_broker.listen)")
	cmd.Flags().StringVar(&httpListen, "http", "", "host:port of health, queue info and metrics over HTTP, \"\" = none (embedded_broker.http_listen, else "+standaloneHTTP+")")
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "directory of the store, \"\" = in memory (embedded_broker.data_dir)")
	return cmd
}

// serveBroker runs until a signal or a failure; httpListen counts where the
// settings say nothing.
func (p *program) serveBroker(ctx context.Context, pairs []string, httpListen string) error {
	settings, err := p.load(pairs, p.warn)
	if err != nil {
		return err
	}
	if settings.EmbeddedBroker.HTTPListen == "" {
		settings.EmbeddedBroker.HTTPListen = httpListen
	}
	logger, err := observe.NewLogger(p.errOut, settings.Log.Format, settings.Log.Level)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer runtime.KeepAlive(heapFloor())
	embedded, err := startBroker(ctx, settings)
	if err != nil {
		return failed(err)
	}
	warnOfSync(logger, settings)
	store := settings.EmbeddedBroker.DataDir
	if store == "" {
		store = "memory"
	}
	logger.Info(fmt.Sprintf("broker ready on %s, messages in %s%s", embedded.Addr(), store, httpText(embedded)))
	select {
	case <-ctx.Done():
		logger.Info("broker: stopping")
	case <-embedded.Done():
	}
	if err := embedded.Stop(); err != nil {
		return failed(err)
	}
	return nil
}

// warnOfSync says what a setting for throw-away use gives up.
func warnOfSync(logger *zap.Logger, settings *config.Settings) {
	if !settings.EmbeddedBroker.Sync && settings.EmbeddedBroker.DataDir != "" {
		logger.Warn("embedded_broker.sync is off: a crash may lose the last messages that were answered")
	}
}

func httpText(embedded *broker.Broker) string {
	if address := embedded.HTTPAddr(); address != nil {
		return ", HTTP on " + address.String()
	}
	return ""
}
