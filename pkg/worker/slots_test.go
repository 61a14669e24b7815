package worker

import (
	"context"
	"math/rand/v2"
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

// TestSlotsResizedAtRandom: after each step those in use and those free are as many as
// there are, nothing is granted while too many are in use, and nobody waits for a slot
// that is free.
func TestSlotsResizedAtRandom(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := newSlots(1 + random.IntN(5))
			granted := make(chan int, 1000)
			asked, used := 0, 0
			for range 200 {
				before := used
				switch random.IntN(3) {
				case 0:
					most := 1 + random.IntN(4)
					asked++
					go func() {
						n, err := s.reserve(context.Background(), most)
						if err != nil {
							t.Error(err)
						}
						granted <- n
					}()
				case 1:
					if used > 0 {
						back := 1 + random.IntN(used)
						used -= back
						before = used
						s.release(back)
					}
				default:
					s.resize(1 + random.IntN(6))
				}
				synctest.Wait()
				for len(granted) > 0 {
					used += <-granted
					asked--
				}
				require.Equal(t, s.total(), used+s.free, "seed %d", seed)
				if used > before {
					require.LessOrEqual(t, used, s.total(), "seed %d: granted beyond the number", seed)
				}
				require.True(t, asked == 0 || s.free <= 0, "seed %d: one waits beside a free slot", seed)
			}
			s.resize(used + asked*4)
			synctest.Wait()
			require.Len(t, granted, asked, "everybody is served in the end")
		})
	}
}

// TestSlotsResizedUnderUse is for the race detector; no slot is lost or made.
func TestSlotsResizedUnderUse(t *testing.T) {
	const size = 5
	s := newSlots(size)
	var held, most atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 300 {
				_, end := s.lend(t.Context())
				n, err := s.reserve(t.Context(), 1+(i+round)%4)
				if err != nil {
					t.Error(err)
				}
				raise(&most, held.Add(int64(n)))
				held.Add(-int64(n))
				end()
				s.release(n)
			}
		})
	}
	for round := range 1000 {
		s.resize(1 + round%size)
	}
	s.resize(size)
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(size))
	n, err := s.reserve(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, size, n, "every slot came back")
}

// TestSlotsAreNotLentWhileTooManyAreInUse: who has reserved them before a resize must
// give them back at once.
func TestSlotsAreNotLentWhileTooManyAreInUse(t *testing.T) {
	s := newSlots(3)
	n, err := s.reserve(t.Context(), 3)
	require.NoError(t, err)
	before, end := s.lend(t.Context())
	defer end()
	require.NoError(t, before.Err())
	s.resize(1)
	require.Error(t, before.Err(), "recalled")
	after, end := s.lend(t.Context())
	defer end()
	require.Error(t, after.Err(), "not lent")
	s.release(n)
	enough, end := s.lend(t.Context())
	defer end()
	require.NoError(t, enough.Err())
}
