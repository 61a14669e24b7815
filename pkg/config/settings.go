package config

import "time"

// Settings are what a worker is started with. Each group holds what one part of
// the program takes.
type Settings struct {
	Worker         Worker
	Broker         Broker
	Results        Results
	EmbeddedBroker EmbeddedBroker
	Log            Log
	Health         Health
	Sentry         Sentry

	values *values
}

// Worker is what the engine takes. Names are Celery's.
type Worker struct {
	// Hostname is the node name's pattern (hostname, -n); NodeName expands it.
	Hostname string
	// Concurrency is the number of slots, at least 1 (worker_concurrency).
	Concurrency int
	// Autoscale is worker_autoscale; Concurrency is not used where it is on.
	Autoscale Autoscale
	// Queues are the queues to consume, at least one, each once: task_queues and
	// the maps in queues, or task_default_queue, narrowed by names in queues (-Q)
	// and by exclude_queues (-X).
	Queues []string

	// RayServe are those of Queues whose messages are Ray Serve's (queues with
	// protocol: rayserve).
	RayServe []RayServeQueue

	// AcksLate is task_acks_late.
	AcksLate bool
	// AcksOnFailure and AcksOnTimeout are task_acks_on_failure and
	// task_acks_on_timeout, or where those are not set
	// task_acks_on_failure_or_timeout.
	AcksOnFailure, AcksOnTimeout bool
	// RejectOnWorkerLost is task_reject_on_worker_lost.
	RejectOnWorkerLost bool

	// IgnoreResult is task_ignore_result.
	IgnoreResult bool
	// StoreErrorsEvenIfIgnored is task_store_errors_even_if_ignored.
	StoreErrorsEvenIfIgnored bool
	// TrackStarted is task_track_started.
	TrackStarted bool

	// DeduplicateSuccessful is worker_deduplicate_successful_tasks.
	DeduplicateSuccessful bool
	// DedupWindow is worker_dedup_window, 0 = off.
	DedupWindow int

	// AcceptContent is accept_content: serializers by name or MIME type.
	AcceptContent []string
	// TaskSerializer, TaskCompression ("" = none) and TaskProtocol (1 or 2) are
	// for messages the worker publishes.
	TaskSerializer, TaskCompression string
	TaskProtocol                    int
	// TaskRoutes is task_routes: maps that are asked one after the other, each in
	// its order. TaskDefaultQueue is task_default_queue.
	TaskRoutes       [][]Route
	TaskDefaultQueue string
	// TaskInheritParentPriority is task_inherit_parent_priority.
	TaskInheritParentPriority bool
	// Timezone is timezone, or what enable_utc makes of it; never nil.
	Timezone *time.Location
	// Limits bound one message.
	Limits Limits

	// UnprocessableQueue is unprocessable_queue, with "%s" for the queue's name;
	// "" drops.
	UnprocessableQueue string
	// UnknownTask is "reject" or "requeue", UnknownTaskAttempts the deliveries
	// that requeue allows.
	UnknownTask         string
	UnknownTaskAttempts int
	// RetryCountdownMax is the longest wait of a retry, 0 = no limit.
	RetryCountdownMax time.Duration
	// MaxAttempts caps the deliveries of one message, 0 = no cap; where it is set,
	// so is DeadLetterQueue.
	MaxAttempts int
	// DeadLetterQueue takes rejected messages; "" drops them.
	DeadLetterQueue string
	// AutoAck has the broker ack each message as it hands it over.
	AutoAck bool
}

// Autoscale has the number of slots follow the depth of the queues.
type Autoscale struct {
	// Min and Max bound the number of slots, 1 ≤ Min ≤ Max. Max 0 = off.
	Min, Max int
	// TargetDepthPerSlot is in messages, at least 1.
	TargetDepthPerSlot int
}

// Limits bound what one message may make the worker do.
type Limits struct {
	// Envelope and Body are in bytes, Depth in levels of nesting, Items in values.
	Envelope, Body, Depth, Items int
}

// Broker says where messages come from and go to.
type Broker struct {
	// Embedded runs the broker of Settings.EmbeddedBroker inside the worker.
	// Consume and Publish then hold its listen address; with port 0 that is not
	// the real one.
	Embedded bool
	// Consume is the server that messages are taken from (broker_read_url or
	// broker_url).
	Consume KubeMQ
	// Publish is the server that messages are sent to (broker_write_url or
	// broker_url); equal to Consume where nothing else is set.
	Publish KubeMQ
}

// Results says where results go.
type Results struct {
	// Backend is "disabled", "kubemq" or "embedded".
	Backend string
	// KubeMQ is the server for the last two.
	KubeMQ KubeMQ
	// Expires is how long results stay readable; 0 = as long as the backend keeps
	// them (result_expires).
	Expires time.Duration
	// Extended stores name, args, kwargs, worker, retries and queue too.
	Extended bool
}

// The values of Results.Backend.
const (
	BackendDisabled = "disabled"
	BackendKubeMQ   = "kubemq"
	BackendEmbedded = "embedded"
)

// KubeMQ is one connection to a KubeMQ server.
type KubeMQ struct {
	// Address is "host:port".
	Address string
	// AuthToken is sent with every call; unset = none.
	AuthToken Secret
	// TLS is off where Enabled is false; the files then are empty.
	TLS ClientTLS
	// Strategy is "auto", "direct", "single" or "batch".
	Strategy string
	// MaxDelay is the longest delay the server takes, at least a second.
	MaxDelay time.Duration
	// Retention is how long the server keeps messages; 0 = not known.
	Retention time.Duration
	// Keepalive is the pause between gRPC pings; negative = none.
	Keepalive time.Duration
	// KeepaliveTimeout is how long the connection may owe every answer, at least a
	// second.
	KeepaliveTimeout time.Duration
	// AllowFastKeepalive says that the server takes pings more often than every 5
	// minutes, and without an open call. Without it Keepalive is not below that.
	AllowFastKeepalive bool
	// MaxSendSize and MaxReceiveSize bound one gRPC message in bytes.
	MaxSendSize, MaxReceiveSize int
	// ClientIDPrefix begins the client ids.
	ClientIDPrefix string
	// ConnectTimeout bounds one attempt to connect.
	ConnectTimeout time.Duration
	// StartRetries and Retries bound the attempts that follow a first, at the start
	// and after a loss: 0 = for ever, negative = none.
	StartRetries, Retries int
}

// ClientTLS is how a client speaks TLS. The files are PEM.
type ClientTLS struct {
	Enabled bool
	// CAFile holds the certificates to trust; "" = the system's.
	CAFile string
	// CertFile and KeyFile are the client's own, for mutual TLS; both or none.
	CertFile, KeyFile string
	// ServerName is the name that the server's certificate must carry; "" = the
	// address's host.
	ServerName string
}

// EmbeddedBroker is the broker that runs inside the worker, or alone.
type EmbeddedBroker struct {
	// Listen is "host:port".
	Listen string
	// HTTPListen is the "host:port" of its HTTP side; "" = none.
	HTTPListen string
	// DataDir is the directory of the store; "" keeps everything in memory.
	DataDir string
	// Sync answers a send only when the message is on disk.
	Sync bool
	// MaxDelay and MaxExpiration bound what a message may ask for.
	MaxDelay, MaxExpiration time.Duration
	// Retention removes messages older than that; 0 = never.
	Retention time.Duration
	// CountCrashes counts a delivery whose client vanished as an attempt.
	CountCrashes bool
	// AuthToken must come with every call; unset = none.
	AuthToken Secret
	// TLS is off where CertFile is empty.
	TLS ServerTLS
}

// ServerTLS is how the embedded broker speaks TLS. The files are PEM.
type ServerTLS struct {
	// CertFile and KeyFile are the broker's; both or none.
	CertFile, KeyFile string
	// ClientCAFile makes clients show a certificate signed by one of these; "" =
	// they need none.
	ClientCAFile string
}

// Log is how the worker logs.
type Log struct {
	// Format is "console" or "json".
	Format string
	// Level is "debug", "info", "warning", "error" or "critical".
	Level string
}

// Health is the health checks and metrics over HTTP.
type Health struct {
	// Listen is "host:port"; "" = none.
	Listen string
	// Watchdog is how long nothing may come although a queue has messages; 0 = it
	// doesn't matter.
	Watchdog time.Duration
	// Profiles turns /debug/pprof/ on.
	Profiles bool
}
