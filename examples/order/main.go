// Command order is the README's example: a worker with one task of its own.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/lovage-project/lovage/pkg/command"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// Order is the Python signature process_order(order_id, total=0).
type Order struct {
	ID    string  `celery:"order_id"`
	Total float64 `celery:"total,default=0"`
}

var errBusy = errors.New("the payment service is busy")

func processOrder(ctx context.Context, in Order) (string, error) {
	receipt, err := charge(ctx, in)
	if errors.Is(err, errBusy) {
		return "", tasks.Retry(ctx, err, tasks.Countdown(30*time.Second))
	}
	return receipt, err
}

func charge(context.Context, Order) (string, error) { return "paid", nil }

func main() {
	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.process_order", processOrder, tasks.MaxRetries(5), tasks.AcksLate())
	command.Main(r) // flags, configuration, signals: the whole command line
}
