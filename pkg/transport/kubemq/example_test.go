package kubemq_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/broker"
	"github.com/lovage-project/lovage/pkg/transport"
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

	config, err := kubemq.ParseURL("kubemq://" + server.Addr().String())
	if err != nil {
		panic(err)
	}
	tr, err := kubemq.New(config)
	if err != nil {
		panic(err)
	}
	if err := tr.Start(ctx); err != nil {
		panic(err)
	}
	defer tr.Stop()

	if err := tr.Publish(ctx, "celery", transport.Outgoing{Body: []byte("hello")}); err != nil {
		panic(err)
	}
	consumer, err := tr.Consumer("celery")
	if err != nil {
		panic(err)
	}
	err = consumer.Receive(ctx, transport.ReceiveRequest{Slots: 8, Wait: time.Second}, func(d transport.Delivery) {
		fmt.Printf("%s, attempt %d\n", d.Body(), d.Attempt())
		fmt.Println("acked:", d.Ack(ctx) == nil)
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// hello, attempt 1
	// acked: true
}

func ExampleChannelName() {
	for _, queue := range []string{"celery", "celery@host.celery.pidbox", "tasks:high"} {
		fmt.Println(kubemq.ChannelName(queue))
	}
	// Output:
	// celery <nil>
	// celery.host.celery.pidbox <nil>
	// taskshigh <nil>
}
