package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// call runs a task as a worker would, which hands over what came with the message.
func call(r *tasks.Registry, name string, request *tasks.Request) (any, error) {
	task, ok := r.Lookup(name)
	if !ok {
		return nil, fmt.Errorf("task %s is not registered: %w", name, r.Err())
	}
	ctx := tasks.WithRequest(context.Background(), request)
	return task.Run(ctx, tasks.Arguments{Args: request.Args, Kwargs: request.Kwargs})
}

// The fields of the struct are the parameters, in order and by name. In Python:
//
//	app.send_task("shop.process_order", args=["A1", Decimal("9.90")])
//	app.send_task("shop.process_order", kwargs={"order_id": "A1", "total": "9.90"})
func ExampleHandle() {
	type Order struct {
		ID    string `celery:"order_id"`
		Total decimal.Decimal
	}
	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.process_order", func(_ context.Context, in Order) (string, error) {
		return in.ID + " costs " + in.Total.StringFixed(2), nil
	}, tasks.MaxRetries(3), tasks.AcksLate())

	fmt.Println(call(r, "shop.process_order", &tasks.Request{Args: []any{"A1", "9.90"}}))
	fmt.Println(call(r, "shop.process_order", &tasks.Request{Args: []any{"A1"}, Kwargs: map[string]any{"total": int64(5)}}))
	fmt.Println(call(r, "shop.process_order", &tasks.Request{Args: []any{"A1"}}))
	fmt.Println(call(r, "shop.process_order", &tasks.Request{Args: []any{"A1", 0.1}}))
	// Output:
	// A1 costs 9.90 <nil>
	// A1 costs 5.00 <nil>
	// <nil> tasks: process_order() missing 1 required positional argument: 'total'
	// <nil> tasks: process_order() argument 'total' must be decimal.Decimal, not float
}

// Defaults, optional and keyword-only parameters, *args and **kwargs. In Python:
//
//	def greet(name, greeting="Hello", title=None, *names, shout=False, **more): ...
func ExampleHandle_defaults() {
	type Greeting struct {
		Name     string
		Greeting string `celery:"greeting,default=Hello"`
		Title    *string
		Names    []string       `celery:",args"`
		Shout    bool           `celery:"shout,default=False"`
		More     map[string]any `celery:",kwargs"`
	}
	r := tasks.NewRegistry()
	tasks.Handle(r, "proj.greet", func(_ context.Context, in Greeting) (string, error) {
		text := in.Greeting + " " + in.Name
		if in.Title != nil {
			text = in.Greeting + " " + *in.Title + " " + in.Name
		}
		if len(in.Names) > 0 {
			text += " and " + strings.Join(in.Names, " and ")
		}
		if in.Shout {
			text = strings.ToUpper(text)
		}
		return fmt.Sprintf("%s %v", text, in.More), nil
	})

	fmt.Println(call(r, "proj.greet", &tasks.Request{Args: []any{"Ann"}}))
	fmt.Println(call(r, "proj.greet", &tasks.Request{
		Args:   []any{"Ann", "Hi", "Dr.", "Bob", "Eve"},
		Kwargs: map[string]any{"shout": true, "lang": "en"},
	}))
	// Output:
	// Hello Ann map[] <nil>
	// HI DR. ANN AND BOB AND EVE map[lang:en] <nil>
}

// A handler can take the arguments as they came.
func ExampleHandleArguments() {
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "proj.count", func(_ context.Context, args tasks.Arguments) (any, error) {
		return len(args.Args) + len(args.Kwargs), nil
	})
	fmt.Println(call(r, "proj.count", &tasks.Request{Args: []any{int64(1), nil}, Kwargs: map[string]any{"x": 1.5}}))
	// Output: 3 <nil>
}

// Retry makes the error to return. It tells when there are no retries left.
func ExampleRetry() {
	errBusy := errors.New("the bank is busy")
	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.charge", func(ctx context.Context, _ tasks.None) (string, error) {
		err := tasks.Retry(ctx, errBusy, tasks.Countdown(30*time.Second))
		if errors.Is(err, tasks.ErrMaxRetriesExceeded) {
			fmt.Println("calling someone")
		}
		return "", err
	}, tasks.MaxRetries(3))

	_, err := call(r, "shop.charge", &tasks.Request{Task: "shop.charge", ID: "7", Retries: 0, MaxRetries: 3})
	fmt.Println(err)
	_, err = call(r, "shop.charge", &tasks.Request{Task: "shop.charge", ID: "7", Retries: 3, MaxRetries: 3})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errBusy))
	// Output:
	// tasks: retry in 30s: the bank is busy
	// calling someone
	// tasks: can't retry shop.charge[7]: the maximum of retries is exceeded: the bank is busy
	// true
}

// Reject gives the message back: to its queue, or to the dead-letter queue.
func ExampleReject() {
	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.ship", func(ctx context.Context, _ tasks.None) (string, error) {
		request, _ := tasks.RequestFrom(ctx)
		if request.Redelivered {
			return "", tasks.Reject("nobody can ship this", false)
		}
		return "", tasks.Reject("another worker shall try", true)
	}, tasks.AcksLate())

	_, err := call(r, "shop.ship", &tasks.Request{})
	fmt.Println(err)
	_, err = call(r, "shop.ship", &tasks.Request{Redelivered: true})
	fmt.Println(err)
	// Output:
	// tasks: rejected and requeued: another worker shall try
	// tasks: rejected: nobody can ship this
}

// Ignore ends a task without a result.
func ExampleIgnore() {
	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.remind", func(context.Context, tasks.None) (tasks.None, error) {
		return tasks.None{}, fmt.Errorf("order A1: %w", tasks.Ignore("paid meanwhile"))
	})
	_, err := call(r, "shop.remind", &tasks.Request{})
	outcome, _ := tasks.OutcomeOf(err)
	fmt.Printf("%T %v\n", outcome, err)
	// Output: *tasks.IgnoreError order A1: tasks: ignored: paid meanwhile
}

// Middleware is wrapped around every task; the first one added is the outermost.
func ExampleRegistry_Use() {
	r := tasks.NewRegistry()
	r.Use(func(task *tasks.Task, next tasks.HandlerFunc) tasks.HandlerFunc {
		return func(ctx context.Context, args tasks.Arguments) (any, error) {
			request, _ := tasks.RequestFrom(ctx)
			fmt.Println("start", task.Name(), request.ID)
			result, err := next(ctx, args)
			fmt.Println("end", task.Name(), result, err)
			return result, err
		}
	})
	tasks.Handle(r, "proj.ping", func(context.Context, tasks.None) (string, error) { return "pong", nil })

	_, _ = call(r, "proj.ping", &tasks.Request{ID: "7"})
	// Output:
	// start proj.ping 7
	// end proj.ping pong <nil>
}

// An error can name the Python class that the caller gets from AsyncResult.get().
func ExampleWithPythonClass() {
	err := tasks.WithPythonClass(errors.New("no such order"), "shop.errors", "OrderNotFound")
	exception := tasks.ExceptionOf(fmt.Errorf("charging: %w", err))
	fmt.Println(exception.Module, exception.Type, exception.Args)
	fmt.Print(tasks.Traceback(err))
	// Output:
	// shop.errors OrderNotFound [no such order]
	// Traceback (most recent call last):
	// shop.errors.OrderNotFound: no such order
}

// Mistakes are collected; a worker refuses to start with them.
func ExampleRegistry_Err() {
	r := tasks.NewRegistry()
	tasks.Handle(r, "proj.watch", func(context.Context, struct{ C chan int }) (string, error) { return "", nil })
	tasks.HandleArguments(r, "proj.watch", nil)
	fmt.Println(r.Err())
	// Output:
	// tasks: can't register "proj.watch": field C: no argument can become chan int
	// tasks: can't register "proj.watch": the handler is nil
}
