package command

import (
	"fmt"
	"math"

	"github.com/getsentry/sentry-go"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/observe"
	"github.com/lovage-project/lovage/pkg/worker"
)

// Option changes what the command line of a program starts.
type Option func(*program)

// WithSentry lets change set what no configuration file can say, such as
// BeforeSend, before the Sentry client is made. It gets what the settings say. A
// DSN that it sets is used where the settings have none.
func WithSentry(change func(*sentry.ClientOptions)) Option {
	return func(p *program) { p.changeSentry = change }
}

// startSentry starts the reports where a DSN is set.
func (p *program) startSentry(s *stack, settings config.Sentry) ([]worker.Observer, error) {
	options := sentryOptions(settings)
	if p.changeSentry != nil {
		p.changeSentry(&options.Client)
	}
	if options.Client.Dsn == "" {
		return nil, nil
	}
	reporter, err := observe.NewSentry(options)
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func() error {
		if err := reporter.Close(settings.ShutdownTimeout); err != nil {
			s.logger.Warn(err.Error())
		}
		return nil
	})
	return []worker.Observer{reporter}, nil
}

func sentryOptions(s config.Sentry) observe.SentryOptions {
	client := sentry.ClientOptions{
		Dsn: s.DSN.Reveal(), Environment: s.Environment, Release: s.Release, SampleRate: s.SampleRate,
		EnableTracing: s.Traces, TracesSampleRate: s.TracesSampleRate,
	}
	if client.Release == "" {
		client.Release = "lovage@" + Version
	}
	if client.SampleRate == 0 {
		client.SampleRate = math.SmallestNonzeroFloat64 // the SDK takes 0 for everything
	}
	return observe.SentryOptions{
		Client: client, SendArgs: s.SendArgs, IgnoreErrors: s.IgnoreErrors, IgnoreMaxRetries: s.IgnoreMaxRetries,
	}
}

// checkSentry refuses what startSentry would.
func checkSentry(s config.Sentry) error {
	if !s.DSN.IsSet() {
		return nil
	}
	if _, err := sentry.NewDsn(s.DSN.Reveal()); err != nil { // which quotes it
		return fmt.Errorf("sentry.dsn: %w", observe.ErrSentryDSN)
	}
	return nil
}
