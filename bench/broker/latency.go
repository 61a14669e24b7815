package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

const (
	latencySamples  = 1000
	delayedMessages = 50_000
	delaySeconds    = 3
)

// latency is from the call that sends until a waiting Get has the message.
type latency struct{ p50, p99 time.Duration }

func measureLatency(ctx context.Context, c *child) (latency, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, disconnect, err := c.connect()
	if err != nil {
		return latency{}, err
	}
	defer disconnect()
	arrivals, failed := make(chan time.Time), make(chan error, 1)
	var consumer sync.WaitGroup
	consumer.Go(func() { failed <- consume(ctx, c, arrivals) })
	samples := make([]time.Duration, 0, latencySamples)
	for range latencySamples {
		if err := waitForGet(ctx, client); err != nil {
			return latency{}, err
		}
		sent := time.Now()
		if _, err := client.SendQueueMessage(ctx, message(0)); err != nil {
			return latency{}, err
		}
		select {
		case at := <-arrivals:
			samples = append(samples, at.Sub(sent))
		case err := <-failed:
			return latency{}, err
		}
	}
	cancel()
	consumer.Wait()
	slices.Sort(samples)
	return latency{p50: samples[len(samples)/2], p99: samples[len(samples)*99/100]}, nil
}

// consume reports when each message came, until ctx ends.
func consume(ctx context.Context, c *child, arrivals chan<- time.Time) error {
	client, disconnect, err := c.connect()
	if err != nil {
		return err
	}
	defer disconnect()
	stream, err := client.QueuesDownstream(ctx)
	if err != nil {
		return err
	}
	for {
		if _, err := getBatch(stream, 1); err != nil {
			return err
		}
		select {
		case arrivals <- time.Now():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitForGet returns when a consumer waits at the queue.
func waitForGet(ctx context.Context, client pb.KubemqClient) error {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		info, err := client.QueuesInfo(ctx, &pb.QueuesInfoRequest{QueueName: queueName})
		if err != nil {
			return err
		}
		if len(info.Info.Queues) > 0 && info.Info.Queues[0].Subscribers > 0 {
			return nil
		}
	}
	return errors.New("no consumer waits")
}

// delayedFigure is what delayed messages reach, per second: sent in batches of
// 1000, and taken from when the first was due until the last was there.
type delayedFigure struct{ sent, arrived float64 }

func measureDelayed(ctx context.Context, c *child) (delayedFigure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, disconnect, err := c.connect()
	if err != nil {
		return delayedFigure{}, err
	}
	defer disconnect()
	begin, left := time.Now(), delayedMessages
	err = sendBatches(ctx, client, batchOf(fillBatch, message(delaySeconds)), func() bool {
		left -= fillBatch
		return left >= 0
	})
	if err != nil {
		return delayedFigure{}, err
	}
	took := time.Since(begin)
	stream, err := client.QueuesDownstream(ctx)
	if err != nil {
		return delayedFigure{}, err
	}
	for got := 0; got < delayedMessages; {
		response, err := getBatch(stream, fillBatch)
		if err != nil {
			return delayedFigure{}, err
		}
		got += len(response.Messages)
	}
	arriving := time.Since(begin) - delaySeconds*time.Second
	return delayedFigure{sent: delayedMessages / took.Seconds(), arrived: delayedMessages / arriving.Seconds()}, nil
}
