package command

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"github.com/lovage-project/lovage/pkg/broker"
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
	return worker.Options{
		Hostname: hostname, Concurrency: w.Concurrency, Queues: w.Queues,
		AcksLate: w.AcksLate, AcksOnFailure: w.AcksOnFailure, AcksOnTimeout: w.AcksOnTimeout,
		RejectOnWorkerLost: w.RejectOnWorkerLost,
		IgnoreResult:       w.IgnoreResult, StoreErrorsEvenIfIgnored: w.StoreErrorsEvenIfIgnored,
		TrackStarted: w.TrackStarted, ResultExpires: s.Results.Expires, ResultExtended: s.Results.Extended,
		AcceptContent: w.AcceptContent, TaskProtocol: w.TaskProtocol, Timezone: w.Timezone,
		Limits: protocol.Limits{
			Envelope: w.Limits.Envelope, Body: w.Limits.Body, Depth: w.Limits.Depth, Items: w.Limits.Items,
		},
		UnprocessableQueue: w.UnprocessableQueue, DeadLetterQueue: w.DeadLetterQueue,
		UnknownTask: worker.UnknownTask(w.UnknownTask), UnknownAttempts: w.UnknownTaskAttempts,
	}, nil
}

// kubemqConfig is the client's configuration for one server.
func kubemqConfig(k config.KubeMQ, hooks transport.Hooks) kubemq.Config {
	c := kubemq.Config{
		Address: k.Address, ClientID: k.ClientIDPrefix, AuthToken: k.AuthToken.Reveal(),
		MaxSend: k.MaxSendSize, MaxReceive: k.MaxReceiveSize,
		Keepalive: k.Keepalive, AllowFastKeepalive: k.AllowFastKeepalive,
		ConnectTimeout: k.ConnectTimeout, MaxDelay: k.MaxDelay, Strategy: kubemq.Strategy(k.Strategy), Hooks: hooks,
	}
	if k.TLS.Enabled {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: k.TLS.ServerName}
		c.TLSFiles = kubemq.TLSFiles{CA: k.TLS.CAFile, Cert: k.TLS.CertFile, Key: k.TLS.KeyFile}
	}
	c.Retention = k.Retention
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
