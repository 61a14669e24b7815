// Command client sends tasks to the worker of this example, as a producer in Go:
//
//	go run ./examples/rayserve/client localhost:50000
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lovage-project/lovage/pkg/rayserve"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

func main() {
	address := "localhost:50000"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if err := run(address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := rayserve.NewClient(rayserve.Config{
		Connection:      kubemq.Config{Address: address},
		Queue:           "inference",
		MaxRetries:      3,
		FailedTaskQueue: "inference.failed",
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Stop()) }()
	if err := client.Start(ctx); err != nil {
		return err
	}
	if err := follow(ctx, client); err != nil {
		return err
	}
	return ask(ctx, client)
}

// follow enqueues a task, shows how far it comes, and waits for its end.
func follow(ctx context.Context, client *rayserve.Client) error {
	watching, err := client.Progress(ctx, func(p rayserve.Progress) {
		fmt.Printf("%3.0f %% of %s: %s\n", p.Pct, p.TaskID, p.Detail)
	})
	if err != nil {
		return err
	}
	id, err := client.Enqueue(ctx, "predict", []any{"What a day! Wonderful!"}, map[string]any{"threshold": 0.4})
	if err != nil {
		return errors.Join(err, watching.Close())
	}
	result, err := client.Wait(ctx, id)
	if err != nil {
		return errors.Join(err, watching.Close())
	}
	fmt.Println(result.Status, result.Result, result.Error)
	return watching.Close()
}

// ask has a task run at once: nothing is queued, and nothing is stored.
func ask(ctx context.Context, client *rayserve.Client) error {
	_, err := client.Query(ctx, "predict", []any{""}, nil, 10*time.Second)
	var failed *rayserve.TaskError
	if !errors.As(err, &failed) {
		return fmt.Errorf("a text is needed, and yet: %w", err)
	}
	fmt.Println(failed.Text)
	return nil
}
