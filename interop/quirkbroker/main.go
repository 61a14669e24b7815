// Command quirkbroker is the embedded broker with every quirk of the KubeMQ server of
// 2023 turned on, for the interop tests: users can't turn them on.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lovage-project/lovage/pkg/broker"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "host:port")
	data := flag.String("data", "", "directory of the store; memory without one")
	flag.Parse()
	if err := run(*listen, *data); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(listen, data string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	b, err := broker.New(broker.Config{Listen: listen, DataDir: data, Sync: broker.SyncOff, Quirks: broker.AllQuirks()})
	if err != nil {
		return err
	}
	if err := b.Start(ctx); err != nil {
		return err
	}
	fmt.Println("broker ready on", b.Addr())
	select {
	case <-ctx.Done():
	case <-b.Done():
	}
	return b.Stop()
}
