package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// work runs a task as a worker would, with its hooks.
func work(r *tasks.Registry, name string, request *tasks.Request) {
	task, _ := r.Lookup(name)
	request.Task, request.MaxRetries = name, task.Options().MaxRetries
	result, err := call(r, name, request)
	hooks, ctx := task.Hooks().Then(r.Hooks()), tasks.WithRequest(context.Background(), request)
	var retry *tasks.RetryError
	switch { // what the hooks return are their panics, for the worker's log
	case err == nil:
		_ = hooks.Success(ctx, request, result)
	case errors.As(err, &retry):
		_ = hooks.Retry(ctx, request, retry)
	default:
		_ = hooks.Failure(ctx, request, err)
	}
}

// Errors of the network are retried after 1 s, 2 s, 4 s and so on. In Python:
//
//	@app.task(autoretry_for=(OSError,), retry_backoff=True, retry_jitter=False, max_retries=5)
func ExampleAutoRetryFor() {
	var errMaintenance = errors.New("closed for today")
	answers := []error{&net.DNSError{Err: "no answer", IsTimeout: true}, errMaintenance, nil}
	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.fetch", func(ctx context.Context, _ tasks.None) (string, error) {
		request, _ := tasks.RequestFrom(ctx)
		return "fetched", answers[request.Retries%len(answers)]
	},
		tasks.AutoRetryFor(tasks.ErrorType[net.Error](), tasks.ErrorIs(context.DeadlineExceeded)),
		tasks.DontAutoRetryFor(tasks.ErrorIs(errMaintenance)),
		tasks.RetryBackoff(1), tasks.RetryJitter(false), tasks.MaxRetries(5),
	)
	for _, retries := range []int{0, 3, 6, 1, 2} {
		_, err := call(r, "shop.fetch", &tasks.Request{Task: "shop.fetch", ID: "7", Retries: retries, MaxRetries: 5})
		fmt.Println(err)
	}
	// Output:
	// tasks: retry in 1s: lookup : no answer
	// tasks: retry in 8s: lookup : no answer
	// tasks: can't retry shop.fetch[7]: the maximum of retries is exceeded: lookup : no answer
	// closed for today
	// <nil>
}

// What fails is tried again where it can do no harm: in a queue of its own. In
// Python:
//
//	raise self.retry(exc=exc, countdown=3600, queue="slow", priority=0)
func ExampleRetryQueue() {
	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.import", func(ctx context.Context, _ tasks.None) (string, error) {
		return "", tasks.Retry(ctx, errors.New("too much"), tasks.Countdown(time.Hour),
			tasks.RetryQueue("slow"), tasks.RetryPriority(0))
	})
	_, err := call(r, "shop.import", &tasks.Request{MaxRetries: 3})
	var retry *tasks.RetryError
	if errors.As(err, &retry) {
		fmt.Println(retry.Queue, *retry.Priority, retry)
	}
	// Output: slow 0 tasks: retry in 3600s: too much
}

// A middleware may change a retry that the handler has asked for.
func ExampleRetryError() {
	r := tasks.NewRegistry()
	r.Use(func(_ *tasks.Task, next tasks.HandlerFunc) tasks.HandlerFunc {
		return func(ctx context.Context, args tasks.Arguments) (any, error) {
			result, err := next(ctx, args)
			var retry *tasks.RetryError
			if errors.As(err, &retry) {
				retry.Headers = map[string]any{"x-last-error": retry.Cause.Error()}
			}
			return result, err
		}
	})
	tasks.Handle(r, "shop.charge", func(ctx context.Context, _ tasks.None) (string, error) {
		return "", tasks.Retry(ctx, errors.New("the bank is busy"))
	})
	_, err := call(r, "shop.charge", &tasks.Request{MaxRetries: 3})
	var retry *tasks.RetryError
	fmt.Println(errors.As(err, &retry), retry.Headers)
	// Output: true map[x-last-error:the bank is busy]
}

// Hooks of one task. In Python they are methods of the task's class:
//
//	class Charge(Task):
//	    def on_retry(self, exc, task_id, args, kwargs, einfo): ...
func ExampleOnExhausted() {
	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.charge", func(ctx context.Context, _ tasks.None) (string, error) {
		return "", tasks.Retry(ctx, errors.New("the bank is busy"))
	},
		tasks.OnRetry(func(_ context.Context, request *tasks.Request, retry *tasks.RetryError) {
			fmt.Println(request.ID, "comes back in", retry.Countdown)
		}),
		tasks.OnExhausted(func(_ context.Context, request *tasks.Request, err *tasks.ExhaustedError) {
			fmt.Println(request.ID, "pages someone:", err.Cause)
		}),
		tasks.OnFailure(func(_ context.Context, request *tasks.Request, err error) {
			fmt.Println(request.ID, "has failed:", err)
		}),
	)
	work(r, "shop.charge", &tasks.Request{ID: "7"})
	work(r, "shop.charge", &tasks.Request{ID: "7", Retries: 3})
	// Output:
	// 7 comes back in 3m0s
	// 7 pages someone: the bank is busy
	// 7 has failed: tasks: can't retry shop.charge[7]: the maximum of retries is exceeded: the bank is busy
}

// counter counts how the tasks of a worker end.
type counter map[string]int

func (c counter) OnSuccess(_ context.Context, request *tasks.Request, _ any) {
	c[request.Task+" succeeded"]++
}

func (c counter) OnFailure(_ context.Context, request *tasks.Request, _ error) {
	c[request.Task+" failed"]++
}

// Hooks of all tasks, as Celery's signals are. A hook has the methods it wants.
func ExampleRegistry_AddHook() {
	r := tasks.NewRegistry()
	counts := counter{}
	r.AddHook(counts)
	tasks.Handle(r, "shop.ship", func(context.Context, struct{ Order string }) (string, error) { return "shipped", nil })
	work(r, "shop.ship", &tasks.Request{Args: []any{"A1"}})
	work(r, "shop.ship", &tasks.Request{Args: []any{"A2"}})
	work(r, "shop.ship", &tasks.Request{})
	fmt.Println(counts)
	// Output: map[shop.ship failed:1 shop.ship succeeded:2]
}
