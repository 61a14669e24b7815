package config

import "time"

// Sentry is what is reported to Sentry, and how.
type Sentry struct {
	// DSN is the project's address, which holds its key; unset = no reports.
	DSN Secret
	// Environment and Release are shown with each event; "" leaves them to the SDK
	// and to the program.
	Environment, Release string
	// SampleRate is the share of failures that is reported, 0 to 1.
	SampleRate float64
	// Traces tells whether runs are sent as transactions; TracesSampleRate is the
	// share of those that belong to no trace yet, 0 to 1.
	Traces           bool
	TracesSampleRate float64
	// SendArgs adds the arguments of tasks.
	SendArgs bool
	// IgnoreErrors are classes and Go types of errors that are not reported.
	IgnoreErrors []string
	// IgnoreMaxRetries leaves out tasks that have used up their retries.
	IgnoreMaxRetries bool
	// ShutdownTimeout bounds the sending of what waits at the end.
	ShutdownTimeout time.Duration
}

// sentryTable is named after the options of Python's SDK where it has them.
func sentryTable() []Setting {
	return []Setting{
		{Name: "sentry.dsn", Kind: Text, Default: `""`,
			Doc: "Address of the project, a secret; better in the environment as SENTRY_DSN. \"\" = no reports."},
		{Name: "sentry.environment", Kind: Text, Default: `""`, Doc: "Name of the environment, also SENTRY_ENVIRONMENT; \"\" = production."},
		{Name: "sentry.release", Kind: Text, Default: `""`, Doc: "Version of your program, also SENTRY_RELEASE; \"\" = Lovage's."},
		{Name: "sentry.sample_rate", Kind: Number, Range: between(0, 1), Default: "1.0", Doc: "Share of the failures that is reported."},
		{Name: "sentry.traces_sample_rate", Kind: Number, Range: between(0, 1),
			Doc: "Share of the runs that is sent as transactions, where the producer has not decided; not set = no transactions."},
		{Name: "sentry.send_args", Kind: Bool, Default: "false",
			Doc: "Adds the arguments of tasks, cut at 1024 characters: they may hold personal data."},
		{Name: "sentry.ignore_errors", Kind: Names, Default: "[]",
			Doc: "Errors that are not reported: Python classes (ValueError, shop.Declined) or Go types (fs.PathError)."},
		{Name: "sentry.ignore_max_retries", Kind: Bool, Default: "false", Doc: "Leaves out tasks that have used up their retries."},
		{Name: "sentry.shutdown_timeout", Kind: Seconds, Range: between(0, 3600), Default: "2",
			Doc: "How long the end waits for what is not sent yet."},
	}
}

func (b *builder) sentry() Sentry {
	v := b.values
	rate, traces := v.settings["sentry.traces_sample_rate"].decoded.(float64)
	return Sentry{
		DSN:         NewSecret(get[string](v, "sentry.dsn")),
		Environment: get[string](v, "sentry.environment"),
		Release:     get[string](v, "sentry.release"),
		SampleRate:  get[float64](v, "sentry.sample_rate"),
		Traces:      traces, TracesSampleRate: rate,
		SendArgs:         get[bool](v, "sentry.send_args"),
		IgnoreErrors:     get[[]string](v, "sentry.ignore_errors"),
		IgnoreMaxRetries: get[bool](v, "sentry.ignore_max_retries"),
		ShutdownTimeout:  get[time.Duration](v, "sentry.shutdown_timeout"),
	}
}
