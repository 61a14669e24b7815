package kubemq_test

import (
	"context"
	"errors"
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

// A worker answers on a channel, and somebody waits for the answer.
func ExampleTransport_Respond() {
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
	tr, err := kubemq.New(kubemq.Config{Address: server.Addr().String()})
	if err != nil {
		panic(err)
	}
	if err := tr.Start(ctx); err != nil {
		panic(err)
	}
	defer tr.Stop()

	subscription, err := tr.Respond(ctx, "models.resnet", 4, func(_ context.Context, body []byte) ([]byte, bool) {
		return append(body, ": a cat"...), true
	})
	if err != nil {
		panic(err)
	}
	defer subscription.Close()
	answer, err := tr.Request(ctx, "models.resnet", []byte("cat.jpg"), time.Second)
	fmt.Printf("%s %v\n", answer, err)
	_, err = tr.Request(ctx, "models.unknown", []byte("cat.jpg"), 100*time.Millisecond)
	fmt.Println(errors.Is(err, transport.ErrNoAnswer))
	// Output:
	// cat.jpg: a cat <nil>
	// true
}
