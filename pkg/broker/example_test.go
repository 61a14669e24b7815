package broker_test

import (
	"context"
	"fmt"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lovage-project/lovage/pkg/broker"
)

// A broker in memory on a free port, and a message through it.
func Example() {
	ctx := context.Background()
	b, err := broker.New(broker.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := b.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := sendAndReceive(ctx, b.Addr().String()); err != nil {
		fmt.Println(err)
	}
	if err := b.Stop(); err != nil {
		fmt.Println(err)
	}
	// Output: received: hello
}

func sendAndReceive(ctx context.Context, address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := pb.NewKubemqClient(conn)
	if _, err := client.SendQueueMessage(ctx, &pb.QueueMessage{ClientID: "example", Channel: "greetings", Body: []byte("hello")}); err != nil {
		return err
	}
	got, err := client.ReceiveQueueMessages(ctx, &pb.ReceiveQueueMessagesRequest{
		ClientID: "example", Channel: "greetings", MaxNumberOfMessages: 1, WaitTimeSeconds: 1,
	})
	if err != nil {
		return err
	}
	fmt.Printf("received: %s\n", got.Messages[0].Body)
	return nil
}

// A broker that keeps its messages in a directory. Sends are answered when they
// have reached the disk.
func ExampleConfig_dataDir() {
	b, err := broker.New(broker.Config{
		Listen:    "127.0.0.1:50000",
		DataDir:   "/var/lib/lovage/broker",
		AuthToken: "a secret",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(b.Addr(), b.Stop())
	// Output: <nil> <nil>
}
