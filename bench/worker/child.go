package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/lovage-project/lovage/bench/meter"
)

// What a child can be.
const (
	roleBroker = "broker" // an embedded broker
	roleLoop   = "loop"   // the ceiling
	roleGet    = "get"    // a bare get that waits
)

// readiness is the first line that a child writes.
type readiness struct {
	Address string `json:"address"`
}

// childOptions are the flags of a child.
type childOptions struct {
	data, listen, address string
	slots                 int
	results               bool
}

// runChild is this program as a child, until its standard input ends.
func runChild(ctx context.Context, role string, args []string) error {
	var o childOptions
	flags := flag.NewFlagSet(role, flag.ContinueOnError)
	flags.StringVar(&o.data, "data", "", "directory of the broker's store")
	flags.StringVar(&o.listen, "listen", "", "address of the broker to start")
	flags.StringVar(&o.address, "address", "", "address of the broker to use")
	flags.IntVar(&o.slots, "slots", 1, "messages at a time")
	flags.BoolVar(&o.results, "results", false, "store results")
	if err := flags.Parse(args); err != nil {
		return err
	}
	m := meter.New()
	ready := readiness{}
	var stop func() error
	var err error
	switch role {
	case roleBroker:
		ready.Address, stop, err = serveBroker(ctx, o)
	case roleLoop:
		stop, err = startLoops(ctx, o, m)
	case roleGet:
		stop, err = startGet(ctx, o, m)
	default:
		err = fmt.Errorf("no child is called %q", role)
	}
	if err != nil {
		return err
	}
	return errors.Join(answer(m, ready, os.Stdin, os.Stdout), stop())
}

func answer(m *meter.Meter, ready readiness, in io.Reader, out io.Writer) error {
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		return err
	}
	return m.Answer(in, out)
}
