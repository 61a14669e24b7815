package worker_test

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	resultskubemq "github.com/lovage-project/lovage/pkg/results/kubemq"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
	"github.com/lovage-project/lovage/pkg/worker"
)

// A worker inside a program of its own, with the broker in the same process. Most
// programs call command.Main instead, which does all this.
func Example() {
	ctx := context.Background()
	embedded, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	check(err)
	check(embedded.Start(ctx))
	defer embedded.Stop()
	server := kubemq.Config{Address: embedded.Addr().String()}
	connection, err := kubemq.New(server)
	check(err)
	check(connection.Start(ctx))
	defer connection.Stop()
	backend, err := resultskubemq.New(resultskubemq.Config{Connection: server})
	check(err)
	check(backend.Start(ctx))
	defer backend.Stop()

	type addends struct{ X, Y int }
	registry := tasks.NewRegistry()
	tasks.Handle(registry, "add", func(_ context.Context, in addends) (int, error) { return in.X + in.Y, nil })
	options := worker.DefaultOptions()
	options.Hostname, options.Concurrency = "celery@example", 2
	w, err := worker.New(options, registry, connection, backend)
	check(err)
	check(w.Start(ctx))
	defer w.Stop(ctx)

	// What a Python client does with add.delay(2, y=3).get().
	message := &protocol.Message{
		Task: "add", ID: uuid.NewString(), Queue: "celery", Args: []any{2}, Kwargs: map[string]any{"y": 3},
	}
	envelope, err := protocol.EncodeMessage(message, protocol.EncodeOptions{Protocol: protocol.Protocol2})
	check(err)
	body, headers, err := envelope.Wire(uuid.NewString())
	check(err)
	check(connection.Publish(ctx, "celery", transport.Outgoing{Body: body, Headers: headers}))
	meta, err := backend.Wait(ctx, message.ID)
	check(err)
	fmt.Println(meta.Status, meta.Result)
	// Output: SUCCESS 5
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
