package gocelery_test

import (
	"context"
	"errors"
	"fmt"

	upstream "github.com/gocelery/gocelery"

	"github.com/lovage-project/lovage/pkg/tasks"
	lovage "github.com/lovage-project/lovage/pkg/tasks/gocelery"
)

// multiply is a gocelery.CeleryTask.
type multiply struct{ a, b float64 }

func (m *multiply) ParseKwargs(kwargs map[string]any) error {
	var okA, okB bool
	m.a, okA = kwargs["a"].(float64)
	m.b, okB = kwargs["b"].(float64)
	if !okA || !okB {
		return errors.New("a and b must be numbers")
	}
	return nil
}

func (m *multiply) RunTask() (any, error) { return m.a * m.b, nil }

// What was registered with gocelery's client is registered here as it is.
func ExampleRegister() {
	r := tasks.NewRegistry()
	lovage.Register(r, "worker.add", func(a, b int) int { return a + b })
	lovage.Register(r, "worker.multiply", &multiply{}, tasks.AcksLate())

	for _, name := range r.Names() {
		task, _ := r.Lookup(name)
		fmt.Println(task.Run(context.Background(), tasks.Arguments{Args: []any{int64(2), int64(3)}}))
		fmt.Println(task.Run(context.Background(), tasks.Arguments{Kwargs: map[string]any{"a": int64(2), "b": int64(3)}}))
	}
	// Output:
	// 5 <nil>
	// <nil> tasks: add() got an unexpected keyword argument 'a'
	// <nil> tasks: multiply() takes 0 positional arguments but 2 were given
	// 6 <nil>
}

// gocelery's client publishes through any transport and reads from any result
// backend.
func ExampleBroker() {
	sent := &publisher{} // a transport.Transport that was started
	client, err := upstream.NewCeleryClient(
		&lovage.Broker{Publisher: sent, Queue: "celery"},
		&lovage.Backend{Results: &memory{}},
		0, // no workers: this is a client
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := client.Delay("worker.add", 2, 3); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(sent.outgoing), "message for", sent.queue)
	// Output: 1 message for celery
}
