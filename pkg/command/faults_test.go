package command

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/broker"
)

const (
	// faultTasks are in the queue, and the fault strikes when faultAt of them have
	// run.
	faultTasks = 1000
	faultAt    = 300
	// backOffCap is the longest pause between two attempts to connect.
	backOffCap = 7500 * time.Millisecond
	// quickHole is a black hole that is long enough to be noticed.
	quickHole = 10 * time.Second
	// holeVariable asks for a black hole of so many seconds ("make faults").
	holeVariable = "LOVAGE_BLACK_HOLE_SECONDS"
)

// fault is something that happens between a worker and its broker.
type fault struct {
	name string
	// strike does it, and heal ends it and returns when the network is well again.
	strike, heal func(r *rig)
}

func faults(hole time.Duration) []fault {
	nothing := func(*rig) {}
	return []fault{
		{name: "FIN", strike: func(r *rig) { r.proxy.Cut() }, heal: nothing},
		{name: "RST", strike: func(r *rig) { r.proxy.Reset() }, heal: nothing},
		{name: "broker restart", strike: func(r *rig) { require.NoError(r.t, r.broker.Stop()) }, heal: func(r *rig) {
			r.await("the loss is noticed", func() bool { return !r.isReady() })
			r.startBroker()
		}},
		{name: "black hole", strike: func(r *rig) { r.proxy.Freeze() }, heal: func(r *rig) {
			over := time.NewTimer(hole)
			defer over.Stop()
			begun := time.Now()
			r.await("the worker is not ready", func() bool { return !r.isReady() })
			r.within("not ready", time.Since(begun), 30*time.Second)
			<-over.C
			r.proxy.Thaw()
		}},
		{name: "half-open", strike: func(r *rig) { r.proxy.Vanish() }, heal: nothing},
	}
}

// TestFaults: a worker in the middle of its work loses its broker in every way
// there is, comes back by itself, and loses nothing.
func TestFaults(t *testing.T) {
	t.Parallel()
	hole := quickHole
	if measuring() {
		seconds, err := strconv.Atoi(os.Getenv(holeVariable))
		require.NoError(t, err)
		hole = time.Duration(seconds) * time.Second
	}
	for name, quirks := range map[string]broker.Quirks{"clean": {}, "quirks of 2023": broker.AllQuirks()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, fault := range faults(hole) {
				t.Run(fault.name, func(t *testing.T) {
					t.Parallel()
					strike(t, fault, newRig(t, broker.Config{DataDir: t.TempDir(), Sync: broker.SyncOff, Quirks: quirks}))
				})
			}
		})
	}
}

// measuring tells whether the machine is to be judged by the clock.
func measuring() bool { return os.Getenv(holeVariable) != "" }

// within prints how long something took, and holds it to a limit where times mean
// something: the machines of CI are slow and shared.
func (r *rig) within(what string, took, limit time.Duration) {
	r.t.Helper()
	r.t.Logf("%s after %v", what, took.Round(time.Millisecond))
	if measuring() {
		require.Less(r.t, took, limit)
	}
}

// strike runs one fault and accounts for every task.
func strike(t *testing.T, fault fault, r *rig) {
	t.Helper()
	r.publish(faultTasks, 10*time.Millisecond)
	r.await("tasks run", func() bool { return r.count(r.ended) >= faultAt })
	fault.strike(r)
	require.Less(t, r.count(r.ended), faultTasks, "the fault came too late")
	fault.heal(r)
	healed, started := time.Now(), r.count(r.started)
	r.await("it consumes again", func() bool { return r.count(r.started) > started+rigSlots })
	resumed := time.Since(healed)
	r.await("every task has run", func() bool { return r.count(r.ended) == faultTasks })
	r.checkResults()
	r.await("it is ready", r.isReady)
	r.within(fault.name+": consumes again", resumed, backOffCap+5*time.Second)
	t.Logf("%s: %d of %d tasks ran twice", fault.name, r.again(), faultTasks)
	require.LessOrEqual(t, r.again(), rigSlots, "only what was running may run twice")
}

// TestReconnectsLeaveNothingBehind: after 50 of them there are as many goroutines
// and sockets as before, and all slots are free.
func TestReconnectsLeaveNothingBehind(t *testing.T) {
	const (
		reconnects = 50
		sockets    = 4 // three of the transport, one for results
	)
	r := newRig(t, broker.Config{})
	work := func() {
		r.publish(2*rigSlots, 20*time.Millisecond)
		r.await("tasks run", func() bool { return r.count(r.ended) == len(r.ids) })
	}
	rest := func(goroutines int) int {
		r.await("all slots are free", func() bool { return r.stack.worker.Load().Busy == 0 })
		r.await("as many sockets as before", func() bool { return r.proxy.Open() == sockets })
		r.await("as many goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
		return runtime.NumGoroutine()
	}
	// Once with all slots at the same time: the pool keeps the goroutines it has needed.
	r.publish(rigSlots, time.Second)
	r.await("all slots are in use", func() bool { return r.stack.worker.Load().Busy == rigSlots })
	work()
	before := rest(math.MaxInt)
	for i := range reconnects {
		if i%2 == 0 {
			r.proxy.Reset()
		} else {
			r.proxy.Cut()
		}
		work()
	}
	after := rest(before)
	t.Logf("%d connections: %d goroutines before, %d after", r.proxy.Accepted(), before, after)
	require.GreaterOrEqual(t, r.proxy.Accepted(), sockets*reconnects)
	r.checkResults()
}
