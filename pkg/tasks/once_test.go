package tasks_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
)

type onceOrder struct {
	ID     string `celery:"order_id"`
	Amount int    `celery:"amount,default=1"`
}

// onceCase is a registry with one task that runs once for each order.
type onceCase struct {
	t        *testing.T
	registry *tasks.Registry
	store    *breakableStore

	mu      sync.Mutex
	reports []error
	runs    int
}

// newOnceCase registers handler as "charge".
func newOnceCase(t *testing.T, handler func(ctx context.Context, run int) (any, error), options ...tasks.OnceOption) *onceCase {
	t.Helper()
	c := &onceCase{t: t, registry: tasks.NewRegistry(), store: &breakableStore{OnceMemory: tasks.NewOnceMemory()}}
	options = append([]tasks.OnceOption{
		tasks.OncePer(func(in onceOrder) string { return in.ID }),
		tasks.OnceReport(func(_ context.Context, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reports = append(c.reports, err)
		}),
	}, options...)
	tasks.Handle(c.registry, "charge", func(ctx context.Context, _ onceOrder) (any, error) {
		c.mu.Lock()
		c.runs++
		run := c.runs
		c.mu.Unlock()
		return handler(ctx, run)
	}, tasks.Wrap(tasks.Once(c.store, options...)))
	require.NoError(t, c.registry.Err())
	return c
}

func (c *onceCase) call(args ...any) (any, error) {
	return call(c.registry, "charge", &tasks.Request{Task: "charge", Args: args, MaxRetries: 3})
}

func (c *onceCase) retried(err, cause error) *tasks.RetryError {
	c.t.Helper()
	var retry *tasks.RetryError
	require.ErrorAs(c.t, err, &retry)
	require.ErrorIs(c.t, err, cause)
	return retry
}

var errStore = errors.New("the store is down")

// breakableStore fails where it is told to.
type breakableStore struct {
	*tasks.OnceMemory
	mu     sync.Mutex
	broken bool
}

func (s *breakableStore) setBroken(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

func (s *breakableStore) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return errStore
	}
	return nil
}

func (s *breakableStore) Claim(ctx context.Context, key, owner string, lease time.Duration) (tasks.OnceState, error) {
	if err := s.err(); err != nil {
		return tasks.OnceState{}, err
	}
	return s.OnceMemory.Claim(ctx, key, owner, lease)
}

func (s *breakableStore) Done(ctx context.Context, key string, result []byte, keep time.Duration) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.OnceMemory.Done(ctx, key, result, keep)
}

func (s *breakableStore) Release(ctx context.Context, key, owner string) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.OnceMemory.Release(ctx, key, owner)
}

func TestOnceReturnsTheStoredResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type receipt struct {
			Number int       `celery:"number"`
			At     time.Time `celery:"at"`
		}
		at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		c := newOnceCase(t, func(_ context.Context, run int) (any, error) { return receipt{run, at}, nil }, tasks.OnceKeep(time.Hour))
		first, err := c.call("A1")
		require.NoError(t, err)
		require.Equal(t, receipt{1, at}, first)

		second, err := call(c.registry, "charge", &tasks.Request{Kwargs: map[string]any{"order_id": "A1", "amount": int64(7)}})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"number": int64(1), "at": at}, second, "the same on the wire")

		other, err := c.call("A2")
		require.NoError(t, err)
		require.Equal(t, receipt{2, at}, other)

		<-time.After(time.Hour)
		again, err := c.call("A1")
		require.NoError(t, err)
		require.Equal(t, receipt{3, at}, again, "the result is forgotten")
		require.Empty(t, c.reports)
	})
}

// TestOnceRunsAgain after every end that is no success.
func TestOnceRunsAgain(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context) (any, error){
		"failure":     func(context.Context) (any, error) { return nil, errors.New("declined") },
		"retry":       func(ctx context.Context) (any, error) { return nil, tasks.Retry(ctx, errors.New("busy")) },
		"reject":      func(context.Context) (any, error) { return nil, tasks.Reject("no", true) },
		"ignore":      func(context.Context) (any, error) { return nil, tasks.Ignore("no") },
		"panic":       func(context.Context) (any, error) { panic("ouch") },
		"unencodable": func(context.Context) (any, error) { return make(chan int), nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newOnceCase(t, func(ctx context.Context, run int) (any, error) {
					if run == 1 {
						return end(ctx)
					}
					return run, nil
				})
				_, _ = c.call("A1")
				value, err := c.call("A1")
				require.NoError(t, err)
				require.Equal(t, 2, value)
			})
		})
	}
}

func TestOnceAfterGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newOnceCase(t, func(_ context.Context, run int) (any, error) {
			if run == 1 {
				runtime.Goexit()
			}
			return run, nil
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.call("A1")
		}()
		<-ended
		value, err := c.call("A1")
		require.NoError(t, err)
		require.Equal(t, 2, value)
	})
}

// TestOnceWhileTheFirstRuns, for longer than its lease.
func TestOnceWhileTheFirstRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newOnceCase(t, func(context.Context, int) (any, error) {
			<-time.After(10 * time.Minute)
			return "done", nil
		}, tasks.OnceLease(30*time.Second), tasks.OnceCountdown(time.Minute))
		var first sync.WaitGroup
		first.Go(func() {
			value, err := c.call("A1")
			if err != nil || value != "done" {
				t.Errorf("%v, %v", value, err)
			}
		})
		for range 9 {
			<-time.After(time.Minute)
			_, err := call(c.registry, "charge", &tasks.Request{Args: []any{"A1"}, Retries: 100, MaxRetries: 3})
			require.Equal(t, time.Minute, c.retried(err, tasks.ErrOnceRunning).Countdown, "whatever the limit of the task is")
		}
		first.Wait()
		value, err := c.call("A1")
		require.NoError(t, err)
		require.Equal(t, "done", value)
		require.Equal(t, 1, c.runs)
	})
}

func TestOnceAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordingStore{OnceMemory: tasks.NewOnceMemory()}
		r := tasks.NewRegistry()
		tasks.HandleArguments(r, "t", func(context.Context, tasks.Arguments) (any, error) { return 1, nil },
			tasks.Wrap(tasks.Once(store, tasks.OnceLease(time.Minute))))
		_, err := call(r, "t", &tasks.Request{})
		require.NoError(t, err)

		// A process that has the key and dies.
		crashed := tasks.NewOnceMemory()
		store.OnceMemory = crashed
		key, _ := store.last()
		_, err = crashed.Claim(t.Context(), key, "dead", time.Minute)
		require.NoError(t, err)
		<-time.After(59 * time.Second)
		_, err = call(r, "t", &tasks.Request{})
		require.ErrorIs(t, err, tasks.ErrOnceRunning)
		<-time.After(time.Second)
		value, err := call(r, "t", &tasks.Request{})
		require.NoError(t, err)
		require.Equal(t, 1, value)
	})
}

// recordingStore knows what it was asked for last.
type recordingStore struct {
	*tasks.OnceMemory
	mu         sync.Mutex
	key, owner string
}

func (s *recordingStore) Claim(ctx context.Context, key, owner string, lease time.Duration) (tasks.OnceState, error) {
	s.mu.Lock()
	s.key, s.owner = key, owner
	s.mu.Unlock()
	return s.OnceMemory.Claim(ctx, key, owner, lease)
}

func (s *recordingStore) last() (key, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key, s.owner
}

func TestOnceWithoutItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newOnceCase(t, func(context.Context, int) (any, error) { return 1, nil })
		c.store.setBroken(true)
		_, err := c.call("A1")
		c.retried(err, errStore)
		require.Zero(t, c.runs)
		// Without an end: the task's own limit holds.
		_, err = call(c.registry, "charge", &tasks.Request{Args: []any{"A1"}, Retries: 3, MaxRetries: 3})
		require.ErrorIs(t, err, tasks.ErrMaxRetriesExceeded)
		require.ErrorIs(t, err, errStore)
	})
}

// TestOnceResultThatCantBeKept: the handler did its work; for the rest of the lease
// nobody does it again.
func TestOnceResultThatCantBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *onceCase
		c = newOnceCase(t, func(_ context.Context, run int) (any, error) {
			c.store.setBroken(run == 1)
			return run, nil
		})
		value, err := c.call("A1")
		require.NoError(t, err)
		require.Equal(t, 1, value)
		require.Len(t, c.reports, 1)
		require.ErrorContains(t, c.reports[0], "tasks: once: keep a result: the store is down")
		c.store.setBroken(false)
		_, err = c.call("A1")
		c.retried(err, tasks.ErrOnceRunning)
	})
}

// TestOnceLosesItsClaim: the store is out of reach for a lease.
func TestOnceLosesItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *onceCase
		begun := time.Now()
		c = newOnceCase(t, func(ctx context.Context, _ int) (any, error) {
			c.store.setBroken(true)
			<-ctx.Done()
			require.LessOrEqual(t, time.Since(begun), 30*time.Second, "before somebody else may have the key")
			require.ErrorIs(t, context.Cause(ctx), tasks.ErrOnceLost)
			return nil, errors.New("a driver's own words")
		}, tasks.OnceLease(30*time.Second))
		_, err := c.call("A1")
		c.retried(err, tasks.ErrOnceLost)
		require.ErrorContains(t, err, "a driver's own words")
	})
}

// TestOnceSurvivesAShortOutage of the store.
func TestOnceSurvivesAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *onceCase
		c = newOnceCase(t, func(ctx context.Context, _ int) (any, error) {
			c.store.setBroken(true)
			<-time.After(15 * time.Second)
			c.store.setBroken(false)
			<-time.After(time.Hour)
			return 1, ctx.Err()
		}, tasks.OnceLease(30*time.Second))
		value, err := c.call("A1")
		require.NoError(t, err)
		require.Equal(t, 1, value)
		require.Len(t, c.reports, 1)
	})
}

// TestOnceTakenOver: another owner has the key after all.
func TestOnceTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordingStore{OnceMemory: tasks.NewOnceMemory()}
		r := tasks.NewRegistry()
		tasks.HandleArguments(r, "t", func(ctx context.Context, _ tasks.Arguments) (any, error) {
			key, owner := store.last()
			require.NoError(t, store.Release(ctx, key, owner))
			_, err := store.OnceMemory.Claim(ctx, key, "another", time.Hour)
			require.NoError(t, err)
			<-ctx.Done()
			return nil, tasks.Reject("cut short", false)
		}, tasks.Wrap(tasks.Once(store)))
		_, err := call(r, "t", &tasks.Request{})
		var rejected *tasks.RejectError
		require.ErrorAs(t, err, &rejected, "what the handler chose stays")
		key, _ := store.last()
		state, err := store.OnceMemory.Claim(t.Context(), key, "a third", time.Hour)
		require.NoError(t, err)
		require.False(t, state.Claimed, "the other's claim is not ended")
	})
}

// TestOnceRenewsForAHandlerThatCleansUp: its context has ended, it is still at work.
func TestOnceRenewsForAHandlerThatCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newOnceCase(t, func(context.Context, int) (any, error) {
			cancel()
			<-time.After(time.Hour)
			return 1, nil
		})
		task, _ := c.registry.Lookup("charge")
		var first sync.WaitGroup
		first.Go(func() {
			if _, err := task.Run(ctx, tasks.Arguments{Args: []any{"A1"}}); err != nil {
				t.Error(err)
			}
		})
		<-time.After(50 * time.Minute)
		_, err := c.call("A1")
		c.retried(err, tasks.ErrOnceRunning)
		first.Wait()
	})
}

func TestOnceKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recordingStore{OnceMemory: tasks.NewOnceMemory()}
		r := tasks.NewRegistry()
		echo := func(context.Context, tasks.Arguments) (any, error) { return nil, nil }
		tasks.HandleArguments(r, "all", echo, tasks.Wrap(tasks.Once(store)))
		tasks.HandleArguments(r, "other", echo, tasks.Wrap(tasks.Once(store)))
		tasks.HandleArguments(r, "never", echo, tasks.Wrap(tasks.Once(store,
			tasks.OnceBy(func(tasks.Arguments) (string, error) { return "", nil }))))
		tasks.HandleArguments(r, "fails", echo, tasks.Wrap(tasks.Once(store,
			tasks.OnceBy(func(tasks.Arguments) (string, error) { return "", errors.New("no key") }))))
		key := func(name string, request *tasks.Request) string {
			t.Helper()
			store.key = ""
			_, err := call(r, name, request)
			require.NoError(t, err)
			return store.key
		}
		one := key("all", &tasks.Request{Args: []any{int64(1)}})
		require.Len(t, one, 36)
		require.Equal(t, one, key("all", &tasks.Request{Args: []any{int64(1)}, Kwargs: map[string]any{}}))
		require.NotEqual(t, one, key("all", &tasks.Request{Args: []any{int64(2)}}))
		require.NotEqual(t, one, key("all", &tasks.Request{Kwargs: map[string]any{"x": int64(1)}}))
		require.NotEqual(t, one, key("other", &tasks.Request{Args: []any{int64(1)}}))
		require.Equal(t, key("all", &tasks.Request{}), key("all", &tasks.Request{Args: []any{}}))
		require.NotEmpty(t, key("all", &tasks.Request{Args: []any{time.Unix(0, 0), []byte{0xff}}}))
		require.Empty(t, key("never", &tasks.Request{}))
		require.Empty(t, key("never", &tasks.Request{}))

		_, err := call(r, "fails", &tasks.Request{})
		require.EqualError(t, err, "tasks: once: the key of a call of fails: no key")
	})
}

// TestOnceLeavesBadArgumentsToTheHandler, which says in Python's words what is wrong.
func TestOnceLeavesBadArgumentsToTheHandler(t *testing.T) {
	c := newOnceCase(t, func(context.Context, int) (any, error) { return nil, nil })
	_, err := c.call()
	var misfit *tasks.ArgumentError
	require.ErrorAs(t, err, &misfit)
	require.ErrorContains(t, err, "charge() missing 1 required positional argument: 'order_id'")
}

func TestOncePerOfNoStruct(t *testing.T) {
	c := newOnceCase(t, func(context.Context, int) (any, error) { return nil, nil },
		tasks.OncePer(func(int) string { return "x" }))
	_, err := c.call("A1")
	require.ErrorContains(t, err, "tasks: once: the key of a call of charge: ")
	require.Zero(t, c.runs)
}

// TestOnceOutsideAWorker has nobody to retry.
func TestOnceOutsideAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newOnceCase(t, func(context.Context, int) (any, error) { return nil, nil })
		c.store.setBroken(true)
		task, _ := c.registry.Lookup("charge")
		_, err := task.Run(t.Context(), tasks.Arguments{Args: []any{"A1"}})
		require.ErrorIs(t, err, errStore)
	})
}

func TestWrap(t *testing.T) {
	var order []string
	named := func(name string) tasks.Middleware {
		return func(_ *tasks.Task, next tasks.HandlerFunc) tasks.HandlerFunc {
			return func(ctx context.Context, args tasks.Arguments) (any, error) {
				order = append(order, name)
				return next(ctx, args)
			}
		}
	}
	r := tasks.NewRegistry()
	handler := func(context.Context, tasks.Arguments) (any, error) { return nil, nil }
	tasks.HandleArguments(r, "wrapped", handler, tasks.Wrap(named("task 1"), named("task 2")), tasks.Wrap(named("task 3")))
	tasks.HandleArguments(r, "plain", handler)
	r.Use(named("registry"))
	for _, name := range []string{"wrapped", "plain"} {
		_, err := call(r, name, &tasks.Request{})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"registry", "task 1", "task 2", "task 3", "registry"}, order)

	tasks.HandleArguments(r, "nil", handler, tasks.Wrap(tasks.Once(nil)))
	require.ErrorContains(t, r.Err(), `tasks: can't register "nil": Wrap: middleware is nil`)
}
