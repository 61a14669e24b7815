package rayserve_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/results/rayserve"
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

	backend, err := rayserve.New(rayserve.Config{
		Connection: kubemq.Config{Address: server.Addr().String()},
		Expiry:     10 * time.Minute,
		Hooks: rayserve.Hooks{
			Kept: func(taskID string, err error) { fmt.Println(taskID, "is kept in memory:", err) },
		},
	})
	if err != nil {
		panic(err)
	}
	if err := backend.Start(ctx); err != nil {
		panic(err)
	}
	defer backend.Stop()

	for _, meta := range []protocol.Meta{
		{TaskID: "1", Status: protocol.StateRevoked}, // a client cancels the task, which runs on
		{TaskID: "1", Status: protocol.StateSuccess, Result: 0.97},
	} {
		if err := backend.Store(ctx, meta, results.StoreOptions{}); err != nil {
			panic(err)
		}
	}
	meta, err := backend.Fetch(ctx, "1")
	fmt.Println(meta.Status, meta.Result, err)
	// Output: REVOKED <nil> <nil>
}
