// Command requestpeer asks and answers over a broker's requests with the worker's own
// transport, for the interop tests: the other side is Python.
//
//	requestpeer -broker HOST:PORT respond CHANNEL
//	requestpeer -broker HOST:PORT ask CHANNEL BODY TIMEOUT
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lovage-project/lovage/pkg/transport"
	"github.com/lovage-project/lovage/pkg/transport/kubemq"
)

// maxAnswer is small, so that a test can exceed it.
const maxAnswer = 64 << 10

func main() {
	address := flag.String("broker", "", "host:port")
	flag.Parse()
	if err := run(*address, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address string, args []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	tr, err := kubemq.New(kubemq.Config{Address: address, MaxSend: maxAnswer})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tr.Stop()) }()
	if err := tr.Start(ctx); err != nil {
		return err
	}
	switch {
	case len(args) == 2 && args[0] == "respond":
		return respond(ctx, tr, args[1])
	case len(args) == 4 && args[0] == "ask":
		return ask(ctx, tr, args[1], args[2], args[3])
	}
	return fmt.Errorf("arguments %q are neither respond CHANNEL nor ask CHANNEL BODY TIMEOUT", args)
}

// respond answers until it is told to stop.
func respond(ctx context.Context, tr transport.Responder, channel string) error {
	subscription, err := tr.Respond(ctx, channel, 4, answer)
	if err != nil {
		return err
	}
	fmt.Println("responding")
	<-ctx.Done()
	return subscription.Close()
}

func answer(ctx context.Context, body []byte) (response []byte, ok bool) {
	fmt.Printf("asked %s\n", body)
	switch string(body) {
	case "never":
		<-ctx.Done()
		fmt.Println("given up:", context.Cause(ctx))
		return nil, false
	case "huge":
		return make([]byte, 2*maxAnswer), true
	}
	return append([]byte("re: "), body...), true
}

// ask prints how it ended.
func ask(ctx context.Context, tr transport.Requester, channel, body, timeout string) error {
	limit, err := time.ParseDuration(timeout)
	if err != nil {
		return err
	}
	response, err := tr.Request(ctx, channel, []byte(body), limit)
	var refused *transport.NotExecutedError
	switch {
	case errors.As(err, &refused):
		fmt.Println("not executed:", refused.Text)
	case errors.Is(err, transport.ErrNoAnswer):
		fmt.Println("no answer")
	case err != nil:
		return err
	default:
		fmt.Printf("answer: %s\n", response)
	}
	return nil
}
