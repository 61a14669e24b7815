package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestSlotsAreGrantedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		n, err := s.reserve(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, 1, n)

		var order []string
		var mu sync.Mutex
		wait := func(name string, reserve func() error) {
			go func() {
				if err := reserve(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				s.release(1)
			}()
			synctest.Wait()
		}
		wait("first", func() error { _, err := s.reserve(t.Context(), 1); return err })
		wait("second", func() error { _, err := s.reserve(t.Context(), 1); return err })
		wait("due", func() error { return s.reserveFirst(t.Context()) })
		wait("due later", func() error { return s.reserveFirst(t.Context()) })
		require.True(t, s.contended())
		s.release(1)
		synctest.Wait()
		require.Equal(t, []string{"due", "due later", "first", "second"}, order)
		require.False(t, s.contended())
	})
}

func TestSlotsCancelledWaiterLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		_, err := s.reserve(t.Context(), 1)
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { _, err := s.reserve(ctx, 1); failed <- err }()
		synctest.Wait()
		cancel(ErrShutdown)
		require.ErrorIs(t, <-failed, ErrShutdown)
		s.release(1)
		n, err := s.reserve(t.Context(), 3)
		require.NoError(t, err)
		require.Equal(t, 1, n, "the slot granted to nobody is free")
	})
}

func TestSlotsNeverExceedTheirNumber(t *testing.T) {
	const size = 3
	s := newSlots(size)
	var held, most atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+round)%5 == 0 {
					cancel() // some give up before, some while they wait
				}
				n, err := s.reserve(ctx, 1+round%4)
				if err == nil {
					now := held.Add(int64(n))
					for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
					}
					held.Add(-int64(n))
					s.release(n)
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(size))
	n, err := s.reserve(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, size, n, "every slot came back")
}
