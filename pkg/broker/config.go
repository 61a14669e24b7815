package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// Sync says when a message counts as stored.
type Sync int

const (
	// SyncAlways answers a send when the message has reached the disk (fsync).
	SyncAlways Sync = iota
	// SyncOff answers before that: a crash of the program or of the machine may
	// lose the last moments. For data that can be thrown away.
	SyncOff
)

// Defaults of Config.
const (
	DefaultListen          = "127.0.0.1:50000"
	DefaultVersion         = "2.6.0"
	DefaultMaxDelay        = 24 * time.Hour
	DefaultMaxExpiration   = 24 * time.Hour
	DefaultMaxMessageBytes = 100 << 20
	DefaultMaxQueues       = 1_000_000
	DefaultMaxStreams      = 10_000
	DefaultMaxWaiting      = 100_000
)

// maxConfiguredBytes keeps message sizes within an int32.
const maxConfiguredBytes = 1 << 30

// Config describes a broker. The zero value is a broker in memory on
// DefaultListen.
type Config struct {
	// Listen is the address to listen on; port 0 picks a free one. The default
	// is the loopback interface.
	Listen string
	// HTTPListen is the address of the HTTP side: health, KubeMQ's queue calls for
	// tools, and metrics. Empty, the default, is none.
	HTTPListen string
	// DataDir is the directory of the store; it is created if missing and can be
	// used by one broker at a time. Empty keeps everything in memory.
	DataDir string
	// Sync says when a message counts as stored.
	Sync Sync
	// MaxDelay and MaxExpiration bound a message's delay and expiration, in whole
	// seconds; a message beyond them is refused with Error 135 or 133.
	MaxDelay, MaxExpiration time.Duration
	// Retention is how long a message stays, counted from when it entered its queue
	// (its Timestamp: a nack, a requeue and the end of a delay start anew). Older
	// ones are removed as if they had expired, not dead-lettered, whether ready or
	// delayed, so it should be longer than the longest delay in use; a message in
	// flight stays until it is settled or comes back. 0, the default, keeps them
	// until they are consumed; the original keeps them for 24 hours.
	Retention time.Duration
	// MinWait is the shortest time a Get waits for a first message, whatever it
	// asks for. 0, the default, answers a Get without wait at once.
	MinWait time.Duration
	// Linger is how long a Get that found a first message while waiting goes on
	// collecting more, up to its MaxItems. 0, the default, answers at once.
	Linger time.Duration
	// CountCrashes makes a downstream stream that ends with messages neither
	// settled nor closed count as a nack of each: one attempt older, at the tail of
	// its queue, dead-lettered at its MaxReceiveCount. So a task that kills its
	// worker does not come back for ever. A client that must leave messages behind
	// without that closes their transactions (CloseByClient), or half-closes the
	// stream (CloseSend) and lets that arrive, before it goes; a stop or a crash of
	// the broker is never counted. Off by default, as with the original, where such
	// messages come back to their old places with an unchanged count.
	CountCrashes bool
	// MaxMessageBytes bounds one gRPC message in both directions, at most 1 GiB.
	MaxMessageBytes int
	// MaxQueues bounds the queues that hold messages or waiting requests.
	MaxQueues int
	// MaxStreams bounds the open streams (upstream, downstream, events, requests)
	// together.
	MaxStreams int
	// MaxWaiting bounds the requests that wait for a message at the same time, and
	// also the commands and queries that wait for a response.
	MaxWaiting int
	// AuthToken, if set, must come as metadata "authorization" with every call
	// but Ping, and as the header of that name with every HTTP request but
	// /health, /ready and /ping.
	AuthToken string
	// TLS, if set, is used for every connection.
	TLS *tls.Config
	// Version is what Ping reports. KubeMQ's Python client warns about versions
	// outside 2.4.0 to 2.6.0.
	Version string
	// Quirks makes the broker behave like a server of 2023. For tests only.
	Quirks Quirks
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	c = c.withQuirkDefaults()
	setDefault(&c.Listen, DefaultListen)
	setDefault(&c.Version, DefaultVersion)
	setDefault(&c.MaxDelay, DefaultMaxDelay)
	setDefault(&c.MaxExpiration, DefaultMaxExpiration)
	setDefault(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	setDefault(&c.MaxQueues, DefaultMaxQueues)
	setDefault(&c.MaxStreams, DefaultMaxStreams)
	setDefault(&c.MaxWaiting, DefaultMaxWaiting)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate reports every field that is out of its range.
func (c Config) validate() error {
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("broker: config: "+format, args...))
		}
	}
	check(c.Sync == SyncAlways || c.Sync == SyncOff, "sync %d is unknown", c.Sync)
	check(c.MaxDelay >= time.Second, "max delay %s is below 1s", c.MaxDelay)
	check(c.MaxExpiration >= time.Second, "max expiration %s is below 1s", c.MaxExpiration)
	check(c.Retention >= 0, "retention %s is negative", c.Retention)
	check(c.MinWait >= 0, "min wait %s is negative", c.MinWait)
	check(c.Linger >= 0, "linger %s is negative", c.Linger)
	check(c.MaxMessageBytes >= 64<<10 && c.MaxMessageBytes <= maxConfiguredBytes,
		"max message bytes %d is not between %d and %d", c.MaxMessageBytes, 64<<10, maxConfiguredBytes)
	check(c.MaxQueues > 0, "max queues %d is below 1", c.MaxQueues)
	check(c.MaxStreams > 0, "max streams %d is below 1", c.MaxStreams)
	check(c.Quirks.ParkTime > 0 && c.Quirks.LoseEvery > 0, "quirks: a number is negative")
	check(c.MaxWaiting > 0, "max waiting %d is below 1", c.MaxWaiting)
	return errors.Join(problems...)
}
