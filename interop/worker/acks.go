package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerAcks registers one task for each policy of the acknowledgement table. Its
// name says which: interop.ack.<early|late>.<acked|rejected>[.requeued].
func registerAcks(r *tasks.Registry) {
	for _, late := range []bool{false, true} {
		for _, onFailure := range []bool{false, true} {
			for _, onLost := range []bool{false, true} {
				tasks.Handle(r, ackName(late, onFailure, onLost), end, tasks.AcksLate(late), tasks.AcksOnFailure(onFailure),
					tasks.RejectOnWorkerLost(onLost), tasks.DefaultRetryDelay(0))
			}
		}
	}
}

func ackName(late, onFailure, onLost bool) string {
	when, failure, lost := "early", "rejected", ""
	if late {
		when = "late"
	}
	if onFailure {
		failure = "acked"
	}
	if onLost {
		lost = ".requeued"
	}
	return fmt.Sprintf("interop.ack.%s.%s%s", when, failure, lost)
}

type endInput struct {
	Path string `celery:"path"`
	How  string `celery:"how"`
}

// end leaves a line in the file at Path and ends as How says. What comes back ends
// well the second time, with the number of this run.
func end(ctx context.Context, in endInput) (any, error) {
	request, err := currentRequest(ctx)
	if err != nil {
		return nil, err
	}
	if err := addLine(in.Path, "start", request.ID); err != nil {
		return nil, err
	}
	if run := request.Attempt + request.Retries; run > 1 {
		return run, nil
	}
	switch in.How {
	case "failure":
		return nil, valueError{"broken"}
	case "encode failure":
		return make(chan int), nil
	case "retry":
		return nil, tasks.Retry(ctx, valueError{"not yet"})
	case "ignore":
		return nil, tasks.Ignore("not wanted")
	case "reject":
		return nil, tasks.Reject("not mine", false)
	case "reject requeue":
		return nil, tasks.Reject("not now", true)
	case "worker lost":
		runtime.Goexit()
	}
	return 1, nil
}
