package main

import (
	"context"
	"errors"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func registerAcks(r *tasks.Registry) {
	tasks.Handle(r, "guide.import", importFile, tasks.AcksLate(), tasks.AcksOnFailure(false), tasks.RejectOnWorkerLost())
	tasks.Handle(r, "guide.route", route, tasks.AcksLate())
	tasks.Handle(r, "guide.lookup", lookup, tasks.Throws(errNoSuchOrder))
}

func importFile(ctx context.Context, in Fetch) (int, error) { return download(ctx, in.URL) }

func route(_ context.Context, in Fetch) (int, error) {
	switch in.URL {
	case "elsewhere":
		return 0, tasks.Reject("another region's", true) // back to the queue, after a second or more
	case "poison":
		return 0, tasks.Reject("not a URL", false) // to the dead-letter queue
	case "seen":
		return 0, tasks.Ignore("already imported") // acked, no result
	}
	return len(in.URL), nil
}

var errNoSuchOrder = errors.New("no such order")

func lookup(_ context.Context, in Fetch) (int, error) {
	if in.URL == "" {
		return 0, tasks.WithPythonClass(errNoSuchOrder, "shop.errors", "OrderNotFound")
	}
	return 1, nil
}
