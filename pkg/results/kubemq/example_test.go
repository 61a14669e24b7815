package kubemq_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/results/kubemq"
	connection "github.com/lovage-project/lovage/pkg/transport/kubemq"
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

	backend, err := kubemq.New(kubemq.Config{Connection: connection.Config{Address: server.Addr().String()}})
	if err != nil {
		panic(err)
	}
	if err := backend.Start(ctx); err != nil {
		panic(err)
	}
	defer backend.Stop()

	for _, meta := range []protocol.Meta{
		{TaskID: "1", Status: protocol.StateStarted},
		{TaskID: "1", Status: protocol.StateSuccess, Result: int64(5), DateDone: time.Now()},
	} {
		if err := backend.Store(ctx, meta, results.StoreOptions{Expires: time.Hour}); err != nil {
			panic(err)
		}
	}
	meta, err := backend.Wait(ctx, "1")
	fmt.Println(meta.Status, meta.Result, err)
	// Output: SUCCESS 5 <nil>
}
