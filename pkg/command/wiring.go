package command

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/canvas"
	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
	"github.com/lovage-project/lovage/pkg/worker"
)

// workerOptions are the engine's settings.
func workerOptions(s *config.Settings) (worker.Options, error) {
	host, err := os.Hostname()
	if err != nil {
		return worker.Options{}, fmt.Errorf("the host has no name: %w", err)
	}
	hostname, err := config.NodeName(s.Worker.Hostname, host)
	if err != nil {
		return worker.Options{}, err
	}
	w := s.Worker
	routes, err := taskRoutes(w.TaskRoutes)
	if err != nil {
		return worker.Options{}, err
	}
	return worker.Options{
		Hostname: hostname, Concurrency: w.Concurrency, Autoscale: autoscale(w.Autoscale), Queues: w.Queues,
		AcksLate: w.AcksLate, AcksOnFailure: w.AcksOnFailure, AcksOnTimeout: w.AcksOnTimeout,
		RejectOnWorkerLost: w.RejectOnWorkerLost,
		IgnoreResult:       w.IgnoreResult, StoreErrorsEvenIfIgnored: w.StoreErrorsEvenIfIgnored,
		TrackStarted: w.TrackStarted, ResultExpires: s.Results.Expires, ResultExtended: s.Results.Extended,
		DeduplicateSuccessful: w.DeduplicateSuccessful, DedupWindow: w.DedupWindow,
		AcceptContent: w.AcceptContent, TaskProtocol: w.TaskProtocol, Timezone: w.Timezone,
		TaskSerializer: w.TaskSerializer, TaskCompression: w.TaskCompression,
		TaskRoutes: routes, TaskDefaultQueue: w.TaskDefaultQueue, TaskInheritParentPriority: w.TaskInheritParentPriority,
		Limits: protocol.Limits{
			Envelope: w.Limits.Envelope, Body: w.Limits.Body, Depth: w.Limits.Depth, Items: w.Limits.Items,
		},
		UnprocessableQueue: w.UnprocessableQueue, DeadLetterQueue: w.DeadLetterQueue,
		MaxAttempts: w.MaxAttempts, AutoAck: w.AutoAck,
		UnknownTask: worker.UnknownTask(w.UnknownTask), UnknownAttempts: w.UnknownTaskAttempts,
		RetryCountdownMax: w.RetryCountdownMax,
	}, nil
}

// autoscale is nil where it is off.
func autoscale(a config.Autoscale) *worker.Autoscale {
	if a.Max == 0 {
		return nil
	}
	return &worker.Autoscale{Min: a.Min, Max: a.Max, TargetDepthPerSlot: a.TargetDepthPerSlot}
}

// slotsText is how many slots the worker has.
func slotsText(w config.Worker) string {
	if w.Autoscale.Max > 0 {
		return fmt.Sprintf("%d to %d", w.Autoscale.Min, w.Autoscale.Max)
	}
	return strconv.Itoa(w.Concurrency)
}

// taskRoutes are the engine's routes. Their options are looked at here, so that a
// mistake stops the worker and not each task.
func taskRoutes(maps [][]config.Route) (canvas.Routes, error) {
	routes := make([][]canvas.Route, len(maps))
	for i, entries := range maps {
		for _, entry := range entries {
			value, err := protocol.ToValue(entry.Options)
			options, _ := value.(map[string]any)
			if err == nil {
				_, err = protocol.DecodeCallOptions(options)
			}
			if err != nil {
				return nil, fmt.Errorf("task_routes: %q: %w", entry.Task, err)
			}
			routes[i] = append(routes[i], canvas.Route{Task: entry.Task, Options: options})
		}
	}
	return canvas.NewRoutes(routes), nil
}

// kubemqConfig is the client's configuration for one server.
func kubemqConfig(k config.KubeMQ, hooks transport.Hooks) kubemq.Config {
	c := kubemq.Config{
		Address: k.Address, ClientID: k.ClientIDPrefix, AuthToken: k.AuthToken.Reveal(),
		MaxSend: k.MaxSendSize, MaxReceive: k.MaxReceiveSize,
		Keepalive: k.Keepalive, KeepaliveTimeout: k.KeepaliveTimeout, AllowFastKeepalive: k.AllowFastKeepalive,
		StartRetries: k.StartRetries, Retries: k.Retries,
		ConnectTimeout: k.ConnectTimeout, MaxDelay: k.MaxDelay, Strategy: kubemq.Strategy(k.Strategy), Hooks: hooks,
	}
	if k.TLS.Enabled {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: k.TLS.ServerName}
		c.TLSFiles = kubemq.TLSFiles{CA: k.TLS.CAFile, Cert: k.TLS.CertFile, Key: k.TLS.KeyFile}
	}
	c.Retention = k.Retention
	return c
}

// consumeConfig is the client's configuration of a worker: what it publishes has the
// broker's own limit as a safety net, unless the broker would go by it before the
// worker can say why.
func consumeConfig(s *config.Settings, hooks transport.Hooks) kubemq.Config {
	c := kubemqConfig(s.Broker.Consume, hooks)
	c.CountsAttempts = s.Broker.Embedded && s.EmbeddedBroker.CountCrashes
	if s.Worker.MaxAttempts > 0 && !c.CountsAttempts {
		c.MaxReceiveCount, c.MaxReceiveQueue = s.Worker.MaxAttempts, s.Worker.DeadLetterQueue
	}
	return c
}

// brokerConfig is the embedded broker's configuration.
func brokerConfig(e config.EmbeddedBroker) (broker.Config, error) {
	c := broker.Config{
		Listen: e.Listen, HTTPListen: e.HTTPListen, DataDir: e.DataDir, MaxDelay: e.MaxDelay, MaxExpiration: e.MaxExpiration,
		Retention: e.Retention, CountCrashes: e.CountCrashes,
		AuthToken: e.AuthToken.Reveal(),
	}
	if !e.Sync {
		c.Sync = broker.SyncOff
	}
	if e.TLS.CertFile == "" {
		return c, nil
	}
	certificate, err := tls.LoadX509KeyPair(e.TLS.CertFile, e.TLS.KeyFile)
	if err != nil {
		return broker.Config{}, fmt.Errorf("embedded_broker.tls: %w", err)
	}
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	if e.TLS.ClientCAFile == "" {
		return c, nil
	}
	authorities, err := os.ReadFile(e.TLS.ClientCAFile)
	if err != nil {
		return broker.Config{}, fmt.Errorf("embedded_broker.tls.client_ca_file: %w", err)
	}
	c.TLS.ClientAuth, c.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !c.TLS.ClientCAs.AppendCertsFromPEM(authorities) {
		return broker.Config{}, fmt.Errorf("embedded_broker.tls.client_ca_file: %s holds no certificate", e.TLS.ClientCAFile)
	}
	return c, nil
}

// reachable turns the address a server listens on into one to connect to.
func reachable(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
