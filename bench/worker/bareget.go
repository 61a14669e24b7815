package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/lovage-project/lovage/bench/meter"
)

// startGet is the child that a bare get is.
func startGet(ctx context.Context, o childOptions, m *meter.Meter) (stop func() error, err error) {
	n, err := connect(o.address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := n.client.QueuesDownstream(ctx)
	if err != nil {
		cancel()
		return nil, errors.Join(err, n.stop())
	}
	over := make(chan error, 1)
	go func() { over <- ended(ctx, noteGets(stream, m)) }()
	return func() error {
		cancel()
		return errors.Join(<-over, n.stop())
	}, nil
}

// noteGets gets one message after the other and notes how old its stamp is.
func noteGets(stream pb.Kubemq_QueuesDownstreamClient, m *meter.Meter) error {
	for {
		got, err := get(stream, 1, true)
		now := time.Now()
		if err != nil {
			return err
		}
		for _, message := range got.Messages {
			due, err := stampIn(message)
			if err != nil {
				return err
			}
			m.Start()
			if err := m.Note(now.Sub(due)); err != nil {
				return err
			}
		}
	}
}

// stampIn reads the stamp from the headers, where argsrepr shows it.
func stampIn(message *pb.QueueMessage) (time.Time, error) {
	var headers struct {
		ArgsRepr string `json:"argsrepr"`
	}
	if err := json.Unmarshal([]byte(message.Metadata), &headers); err != nil {
		return time.Time{}, err
	}
	var nanoseconds int64
	if _, err := fmt.Sscanf(headers.ArgsRepr, "(%d,)", &nanoseconds); err != nil {
		return time.Time{}, fmt.Errorf("argsrepr %s: %w", strconv.Quote(headers.ArgsRepr), err)
	}
	return time.Unix(0, nanoseconds), nil
}
