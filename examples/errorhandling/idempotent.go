package main

import (
	"context"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func registerIdempotent(r *tasks.Registry, keys tasks.OnceStore) {
	once := tasks.Once(keys,
		tasks.OncePer(func(in Charge) string { return in.Order }),
		tasks.OnceKeep(12*time.Hour))
	tasks.Handle(r, "guide.charge", charge, tasks.AcksLate(), tasks.Wrap(once))
}

// Charge is the Python signature charge(order, cents).
type Charge struct {
	Order string `celery:"order"`
	Cents int    `celery:"cents"`
}

func charge(ctx context.Context, in Charge) (string, error) {
	return askBank(ctx, in.Order, in.Cents)
}

// chargeID is the id under which everybody publishes this call.
func chargeID(order string, cents int) (string, error) {
	return tasks.DeterministicID("guide.charge", order, cents)
}

func askBank(_ context.Context, order string, cents int) (string, error) {
	if cents <= 0 {
		return "", errTimeout
	}
	return "receipt of " + order, nil
}
