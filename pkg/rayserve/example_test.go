package rayserve_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/rayserve"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	if err := server.Start(ctx); err != nil {
		panic(err)
	}
	defer server.Stop()

	client, err := rayserve.NewClient(rayserve.Config{
		Connection:      kubemq.Config{Address: server.Addr().String()},
		Queue:           "inference",
		MaxRetries:      3,
		FailedTaskQueue: "inference-failed",
	})
	if err != nil {
		panic(err)
	}
	if err := client.Start(ctx); err != nil {
		panic(err)
	}
	defer client.Stop()

	id, err := client.Enqueue(ctx, "score", []any{"an image's URL"}, map[string]any{"threshold": 0.5})
	if err != nil {
		panic(err)
	}
	// Nobody works on the queue, so there is time to think again.
	cancelled, err := client.Cancel(ctx, id)
	if err != nil {
		panic(err)
	}
	result, err := client.Wait(ctx, id)
	fmt.Println(cancelled, result.Status, err)

	_, err = client.Enqueue(ctx, "score", []any{1, map[string]any{"image": []byte{0xFF}}}, nil)
	fmt.Println(err)
	// Output:
	// true CANCELLED <nil>
	// rayserve: enqueue task "score": protocol: can't encode args[1].image: type []uint8 has no form in JSON; pass them as a string, base64 for example, or as a list of numbers
}
