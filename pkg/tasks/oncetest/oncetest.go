// Package oncetest has the tests that every store of tasks.Once passes.
//
//	for _, c := range oncetest.Cases() {
//		t.Run(c.Name, func(t *testing.T) { c.Run(t, NewStore()) })
//	}
//
// Leases pass in them. Where the store goes by the time of this process, a
// testing/synctest bubble around Run makes that quick.
package oncetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// lease is what the cases claim for, and margin how much later a store may see its
// end: some know whole seconds only.
const (
	lease  = 3 * time.Second
	margin = 1500 * time.Millisecond
	long   = time.Hour
)

// key is of the form that Once makes.
const key = "7f3a4c1e-0b5d-5e2f-9a6b-1c2d3e4f5a6b"

// Case is one test.
type Case struct {
	Name string
	run  func(s suite)
}

// Run runs it with a store that no other case has used.
func (c Case) Run(t *testing.T, store tasks.OnceStore) {
	t.Helper()
	c.run(suite{t, store})
}

// Cases are all tests.
func Cases() []Case {
	return []Case{
		{"one owner has a key", oneOwner},
		{"a claim ends with its lease", leaseEnds},
		{"an owner renews its claim", renews},
		{"a released key is free", releases},
		{"only the owner releases", onlyTheOwner},
		{"a result ends all claims", done},
		{"the first result stays", firstResult},
		{"a result is forgotten", forgets},
		{"a late result counts", lateResult},
		{"one of many gets the key", race},
		{"a context that has ended", ended},
	}
}

// suite shortens calls that must not fail.
type suite struct {
	t     *testing.T
	store tasks.OnceStore
}

func (s suite) claim(owner string) tasks.OnceState {
	s.t.Helper()
	state, err := s.store.Claim(s.t.Context(), key, owner, lease)
	require.NoError(s.t, err)
	return state
}

func (s suite) claimed(owner string) {
	s.t.Helper()
	require.Equal(s.t, tasks.OnceState{Claimed: true}, s.claim(owner))
}

func (s suite) refused(owner string) {
	s.t.Helper()
	require.Equal(s.t, tasks.OnceState{}, s.claim(owner))
}

func (s suite) done(result string, keep time.Duration) {
	s.t.Helper()
	require.NoError(s.t, s.store.Done(s.t.Context(), key, []byte(result), keep))
}

func (s suite) release(owner string) {
	s.t.Helper()
	require.NoError(s.t, s.store.Release(s.t.Context(), key, owner))
}

func pass(d time.Duration) { <-time.After(d) }

func oneOwner(s suite) {
	s.claimed("a")
	s.refused("b")
	s.refused("c")
	state, err := s.store.Claim(s.t.Context(), "another key", "b", lease)
	require.NoError(s.t, err)
	require.True(s.t, state.Claimed, "keys have nothing to do with each other")
}

func leaseEnds(s suite) {
	s.claimed("a")
	pass(lease + margin)
	s.claimed("b")
	s.refused("a")
}

func renews(s suite) {
	s.claimed("a")
	// Longer than one lease, and as often as Once does.
	for range 5 {
		pass(lease / 3)
		s.claimed("a")
		s.refused("b")
	}
	pass(lease - margin)
	s.refused("b")
	pass(2 * margin)
	s.claimed("b")
}

func releases(s suite) {
	s.release("a")
	s.claimed("a")
	s.claimed("a")
	s.release("a")
	s.claimed("b")
	s.refused("a")
}

func onlyTheOwner(s suite) {
	s.claimed("a")
	s.release("b")
	s.refused("b")
	s.done("1", long)
	s.release("a")
	require.True(s.t, s.claim("b").Done, "a result is no claim")
}

func done(s suite) {
	s.claimed("a")
	s.done(`{"n": "é\u0000"}`, long)
	want := tasks.OnceState{Done: true, Result: []byte(`{"n": "é\u0000"}`)}
	require.Equal(s.t, want, s.claim("b"))
	require.Equal(s.t, want, s.claim("a"))
	pass(lease + margin)
	require.Equal(s.t, want, s.claim("b"), "it lives longer than the claim")
}

func firstResult(s suite) {
	s.done("first", long)
	s.done("second", long)
	require.Equal(s.t, []byte("first"), s.claim("a").Result)
}

func forgets(s suite) {
	s.claimed("a")
	s.done("1", lease)
	// The claim was given for as long, and must not outlive its end.
	pass(lease + margin)
	s.claimed("b")
}

func lateResult(s suite) {
	s.claimed("a")
	pass(lease + margin)
	s.claimed("b")
	s.done("1", long)
	require.True(s.t, s.claim("b").Done)
	s.release("b")
	require.True(s.t, s.claim("c").Done)
}

func race(s suite) {
	var (
		all sync.WaitGroup
		won atomic.Int32
	)
	for i := range 8 {
		all.Go(func() {
			state, err := s.store.Claim(s.t.Context(), key, fmt.Sprintf("owner %d", i), long)
			if err != nil {
				s.t.Error(err) // not require: this is no test's goroutine
			}
			if state.Claimed {
				won.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(s.t, 1, won.Load())
}

func ended(s suite) {
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	_, err := s.store.Claim(ctx, key, "a", lease)
	require.ErrorIs(s.t, err, context.Canceled)
	require.ErrorIs(s.t, s.store.Done(ctx, key, nil, long), context.Canceled)
	require.ErrorIs(s.t, s.store.Release(ctx, key, "a"), context.Canceled)
	s.claimed("b")
}
