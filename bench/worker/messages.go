package main

import (
	"bytes"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// queueName is the queue that is worked on, slowQueue the one beside it.
const (
	queueName = "bench"
	slowQueue = "slow"
)

// placeholder stands for the ids in a template.
const placeholder = "00000000-0000-4000-8000-000000000000"

// task is a call to be published. Lovage's queue and Celery's on Redis get the same
// bytes: both are kombu's envelope.
type task struct {
	name string
	args []any
	eta  time.Time // zero for none
}

func noop(payload int) task {
	if payload == 0 {
		return task{name: "bench.noop", args: []any{}}
	}
	return task{name: "bench.noop", args: []any{strings.Repeat("x", payload)}}
}

// wire is a message as it stands in a queue: its envelope and, apart, its headers.
type wire struct{ envelope, headers []byte }

// encode makes a message of protocol 2 as a Celery client does.
func (t task) encode(id, queue string) (wire, error) {
	m := &protocol.Message{
		Task: t.name, ID: id, RootID: id, Args: t.args, Queue: queue,
		ArgsRepr: protocol.ReprArgs(t.args), KwargsRepr: "{}", Origin: "gen1@bench", ReplyTo: id,
		ETA: t.eta,
	}
	envelope, err := protocol.EncodeMessage(m, protocol.EncodeOptions{Protocol: protocol.Protocol2, Serializer: "json"})
	if err != nil {
		return wire{}, err
	}
	w := wire{}
	w.envelope, w.headers, err = envelope.Wire(id)
	return w, err
}

// template makes many messages that differ in their ids alone.
type template struct{ wire }

func (t task) template(queue string) (template, error) {
	w, err := t.encode(placeholder, queue)
	return template{wire: w}, err
}

// next is a message with an id of its own.
func (t template) next() wire {
	id := []byte(uuid.NewString())
	return wire{
		envelope: bytes.ReplaceAll(t.envelope, []byte(placeholder), id),
		headers:  bytes.ReplaceAll(t.headers, []byte(placeholder), id),
	}
}
