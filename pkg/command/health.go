package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// healthPatience bounds a health check.
const healthPatience = 3 * time.Second

// healthCommand is a container's health check: an image without a shell has
// nothing else to ask with.
func (p *program) healthCommand() *cobra.Command {
	var broker string
	var live bool
	cmd := &cobra.Command{
		Use: "health", Short: "Tell by the exit code whether the worker here consumes, or a broker answers", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), healthPatience)
			defer cancel()
			settings, err := p.load(nil, func(config.Warning) {})
			if err != nil {
				return err
			}
			if broker != "" {
				settings.Broker.Consume.Address = broker
				return p.pingBroker(ctx, settings.Broker.Consume)
			}
			if settings.Health.Listen == "" {
				return errors.New("health.listen is not set: there is nothing to ask")
			}
			path := "/readyz"
			if live {
				path = "/healthz"
			}
			return p.askHealth(ctx, settings.Health.Listen, path)
		},
	}
	cmd.Flags().StringVar(&broker, "broker", "", "host:port of a broker to ping instead")
	cmd.Flags().BoolVar(&live, "live", false, "ask whether the process lives, not whether it consumes")
	return cmd
}

func (p *program) askHealth(ctx context.Context, listen, path string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = response.Body.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(response.Body, 1024))
	if err != nil {
		return failed(err)
	}
	if response.StatusCode != http.StatusOK {
		return failed(fmt.Errorf("%s: %s", response.Status, text))
	}
	_, err = fmt.Fprint(p.out, string(text))
	return err
}

func (p *program) pingBroker(ctx context.Context, server config.KubeMQ) error {
	client, err := kubemq.NewClient(kubemqConfig(server, transport.Hooks{}))
	if err != nil {
		return err
	}
	if err := errors.Join(client.Connect(ctx, nil), client.Close()); err != nil {
		return failed(err)
	}
	_, err = fmt.Fprintln(p.out, "broker answers")
	return err
}
