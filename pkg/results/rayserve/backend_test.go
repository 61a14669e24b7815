package rayserve

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/protocol"
	wire "github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/transport"
)

var errAway = errors.New("the broker is away")

// fakeInner is a backend that can be away.
type fakeInner struct {
	mu     sync.Mutex
	err    error // of every Store
	silent bool  // Store waits until its context ends
	calls  []call
	stored map[string]protocol.Meta
}

type call struct {
	at      time.Time
	meta    protocol.Meta
	options results.StoreOptions
}

// heal ends what is wrong.
func (f *fakeInner) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = nil
}

func (f *fakeInner) tries() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *fakeInner) Store(ctx context.Context, meta protocol.Meta, options results.StoreOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call{time.Now(), meta, options})
	if f.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.err != nil && (!errors.Is(f.err, transport.ErrTooLarge) || meta.Result != nil) {
		return f.err
	}
	f.stored[meta.TaskID] = meta
	return nil
}

func (f *fakeInner) Fetch(_ context.Context, taskID string) (protocol.Meta, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if meta, ok := f.stored[taskID]; ok {
		return meta, nil
	}
	return protocol.Meta{}, results.ErrNotFound
}

func (f *fakeInner) Glance(ctx context.Context, taskID string) (protocol.Meta, error) {
	return f.Fetch(ctx, taskID)
}

func (f *fakeInner) Forget(context.Context, string) error { return nil }
func (f *fakeInner) Start(context.Context) error          { return nil }
func (f *fakeInner) Stop() error                          { return nil }

// told are the hooks' calls.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (o *told) hook(what string) func(string, error) {
	return func(id string, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.lines = append(o.lines, fmt.Sprintf("%s %s: %v", what, id, err))
	}
}

func (o *told) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines
}

func start(t *testing.T, inner *fakeInner) (*Backend, *told) {
	t.Helper()
	inner.stored = make(map[string]protocol.Meta)
	hooks := &told{}
	b := newBackend(inner, Form{}, Hooks{
		Failed: hooks.hook("failed"), Kept: hooks.hook("kept"), Dropped: hooks.hook("dropped"), Replaced: hooks.hook("replaced"),
	})
	require.NoError(t, b.Start(t.Context()))
	return b, hooks
}

func meta(id string, state protocol.State) protocol.Meta {
	m := protocol.Meta{TaskID: id, Status: state}
	if state == protocol.StateSuccess {
		m.Result = "result"
	}
	if state == protocol.StateFailure {
		m.Result = protocol.Exception{Type: "ValueError", Args: []any{"no"}}
	}
	return m
}

func TestThreeTriesASecondApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fakeInner{err: errAway}
		b, hooks := start(t, inner)
		defer func() { require.NoError(t, b.Stop()) }()
		begun := time.Now()
		require.ErrorIs(t, b.Store(t.Context(), meta("1", protocol.StatePending), results.StoreOptions{First: true}), errAway,
			"a state on the way is not kept")
		require.Equal(t, 2*time.Second, time.Since(begun))
		require.Len(t, inner.tries(), 3)
		for i, try := range inner.tries() {
			require.Equal(t, results.StoreOptions{First: i == 0}, try.options)
		}
		require.Len(t, hooks.all(), 3)
		require.Equal(t, Counts{Failed: 3}, b.Counts())
	})
}

func TestSecondTrySucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fakeInner{err: errAway}
		b, _ := start(t, inner)
		defer func() { require.NoError(t, b.Stop()) }()
		time.AfterFunc(500*time.Millisecond, func() { inner.heal() })
		require.NoError(t, b.Store(t.Context(), meta("1", protocol.StateSuccess), results.StoreOptions{First: true, Expires: time.Minute}))
		require.Equal(t, results.StoreOptions{}, inner.tries()[0].options, "PENDING comes first, and the expiry is the queue's")
		require.Equal(t, Counts{Failed: 1}, b.Counts())
	})
}

func TestKeptUntilTheBrokerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fakeInner{err: errAway}
		b, hooks := start(t, inner)
		defer func() { require.NoError(t, b.Stop()) }()
		for _, state := range []protocol.State{protocol.StateSuccess, protocol.StateFailure, protocol.StateRevoked} {
			require.NoError(t, b.Store(t.Context(), meta(string(state), state), results.StoreOptions{}))
			got, err := b.Fetch(t.Context(), string(state))
			require.NoError(t, err)
			require.Equal(t, state, got.Status, "read from memory")
			glanced, err := b.Glance(t.Context(), string(state))
			require.NoError(t, err)
			require.Equal(t, got, glanced)
		}
		require.Equal(t, 3, b.Counts().Kept)
		require.Contains(t, hooks.all(), "kept SUCCESS: the broker is away")
		require.NoError(t, pause.For(t.Context(), 10*time.Minute))
		tries := len(inner.tries())
		require.Less(t, tries, 60, "not at full speed")

		inner.heal()
		require.NoError(t, pause.For(t.Context(), time.Minute))
		synctest.Wait()
		require.Zero(t, b.Counts().Kept)
		for _, state := range []protocol.State{protocol.StateSuccess, protocol.StateFailure, protocol.StateRevoked} {
			got, err := b.Fetch(t.Context(), string(state))
			require.NoError(t, err)
			require.Equal(t, state, got.Status)
		}
		require.Equal(t, "result", inner.stored["SUCCESS"].Result)
		require.Equal(t, meta("x", protocol.StateFailure).Result, inner.stored["FAILURE"].Result)
	})
}

// TestKeptWhateverItsDepth: what can be written can be read, and be stored later.
func TestKeptWhateverItsDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fakeInner{err: errAway}
		b, _ := start(t, inner)
		defer func() { require.NoError(t, b.Stop()) }()
		m := meta("1", protocol.StateSuccess)
		for range 240 {
			m.Result = []any{m.Result}
		}
		require.NoError(t, b.Store(t.Context(), m, results.StoreOptions{}))
		_, err := b.Fetch(t.Context(), "1")
		require.NoError(t, err)
		inner.heal()
		require.NoError(t, pause.For(t.Context(), time.Minute))
		synctest.Wait()
		require.Equal(t, Counts{Failed: b.Counts().Failed}, b.Counts(), "neither kept nor lost")
	})
}

func TestNewerStateReplacesTheKeptOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fakeInner{err: errAway}
		b, _ := start(t, inner)
		defer func() { require.NoError(t, b.Stop()) }()
		require.NoError(t, b.Store(t.Context(), meta("1", protocol.StateFailure), results.StoreOptions{}))
		synctest.Wait() // it has been tried in the background too
		inner.heal()
		// It could be stored now, but what is kept must not come after it.
		require.NoError(t, b.Store(t.Context(), meta("1", protocol.StateSuccess), results.StoreOptions{}))
		require.NoError(t, b.Store(t.Context(), meta("1", protocol.StateFailure), results.StoreOptions{}))
		require.NoError(t, pause.For(t.Context(), time.Minute))
		synctest.Wait()
		require.Zero(t, b.Counts().Kept)
		require.Equal(t, protocol.StateSuccess, inner.stored["1"].Status)
	})
}

func TestSilentBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fakeInner{silent: true}
		b, hooks := start(t, inner)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the engine's patience
		defer cancel()
		require.NoError(t, b.Store(ctx, meta("1", protocol.StateSuccess), results.StoreOptions{}))
		require.NoError(t, ctx.Err())
		begun := time.Now()
		require.NoError(t, b.Stop())
		require.LessOrEqual(t, time.Since(begun), 10*time.Second)
		require.Equal(t, uint64(1), b.Counts().Dropped)
		require.Contains(t, hooks.all(), `dropped 1: task "1": results: rayserve: stopped before the broker took it`)
		require.ErrorIs(t, b.Store(t.Context(), meta("2", protocol.StateSuccess), results.StoreOptions{}), transport.ErrStopped,
			"nobody would go on trying")
	})
}

func TestForgetWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := start(t, &fakeInner{err: errAway})
		defer func() { require.NoError(t, b.Stop()) }()
		require.NoError(t, b.Store(t.Context(), meta("1", protocol.StateSuccess), results.StoreOptions{}))
		require.NoError(t, b.Forget(t.Context(), "1"))
		_, err := b.Fetch(t.Context(), "1")
		require.ErrorIs(t, err, results.ErrNotFound)
	})
}

func TestStopTriesOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fakeInner{err: errAway}
		b, _ := start(t, inner)
		for i := range 5 {
			require.NoError(t, b.Store(t.Context(), meta(strconv.Itoa(i), protocol.StateSuccess), results.StoreOptions{}))
		}
		inner.heal()
		require.NoError(t, b.Stop())
		require.NoError(t, b.Stop())
		require.Len(t, inner.stored, 5)
		require.Zero(t, b.Counts().Dropped)
	})
}

func TestWhatNobodyCanStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fakeInner{err: fmt.Errorf("queue: %w", transport.ErrName)}
		b, _ := start(t, inner)
		defer func() { require.NoError(t, b.Stop()) }()
		begun := time.Now()
		require.ErrorIs(t, b.Store(t.Context(), meta("1", protocol.StateSuccess), results.StoreOptions{}), transport.ErrName)
		require.Zero(t, time.Since(begun))
		require.Len(t, inner.tries(), 1)
		require.Zero(t, b.Counts().Kept)
	})
}

func TestLargerThanTheBrokerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fakeInner{err: transport.ErrTooLarge}
		b, hooks := start(t, inner)
		defer func() { require.NoError(t, b.Stop()) }()
		require.NoError(t, b.Store(t.Context(), meta("1", protocol.StateSuccess), results.StoreOptions{}))
		require.Equal(t, protocol.StateSuccess, inner.stored["1"].Status)
		require.Nil(t, inner.stored["1"].Result)
		require.Contains(t, inner.stored["1"].Extra[wire.ExtraError], "larger than the broker takes")
		require.Len(t, hooks.all(), 1)
	})
}
