package tasks_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// An order is charged once, however often and under whatever ids the task is
// published, and the later calls get the receipt of the first.
func ExampleOnce() {
	type Order struct {
		ID     string `celery:"order_id"`
		Amount int    `celery:"amount"`
	}
	charge := func(_ context.Context, in Order) (string, error) {
		fmt.Println("charging", in.Amount)
		return "receipt of " + in.ID, nil
	}
	once := tasks.Once(tasks.NewOnceMemory(),
		tasks.OncePer(func(in Order) string { return in.ID }), tasks.OnceKeep(7*24*time.Hour))

	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.charge", charge, tasks.AcksLate(), tasks.Wrap(once))

	fmt.Println(call(r, "shop.charge", &tasks.Request{Args: []any{"A1", int64(990)}}))
	fmt.Println(call(r, "shop.charge", &tasks.Request{Kwargs: map[string]any{"order_id": "A1", "amount": int64(990)}}))
	// Output:
	// charging 990
	// receipt of A1 <nil>
	// receipt of A1 <nil>
}

// One keyword argument is the key: a report is made once a day.
func ExampleOnceBy() {
	once := tasks.Once(tasks.NewOnceMemory(), tasks.OnceBy(func(args tasks.Arguments) (string, error) {
		day, _ := args.Kwargs["day"].(string)
		return day, nil // "" runs always
	}))
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "reports.daily", func(context.Context, tasks.Arguments) (any, error) {
		fmt.Println("reporting")
		return nil, nil
	}, tasks.Wrap(once))

	for _, kwargs := range []map[string]any{{"day": "2026-11-29"}, {"day": "2026-11-29", "again": true}, {}, {}} {
		_, err := call(r, "reports.daily", &tasks.Request{Kwargs: kwargs})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// reporting
	// reporting
	// reporting
}

// Two programs that publish the same call give it the same id.
func ExampleDeterministicID() {
	fmt.Println(tasks.DeterministicID("shop.charge", "A1", 990))
	_, err := tasks.DeterministicID("shop.charge", time.Time{})
	fmt.Println(err)
	// Output:
	// 8b727e7d-8d84-5a05-aa15-ec409e2bb064 <nil>
	// tasks: deterministic id of shop.charge: argument 0: a time.Time has no form in JSON: use its text
}
