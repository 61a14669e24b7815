package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func TestSlotsAreGrantedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		q := s.share()
		n, err := q.reserve(t.Context(), 5)
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
				q.release(1)
			}()
			synctest.Wait()
		}
		wait("first", func() error { _, err := q.reserve(t.Context(), 1); return err })
		wait("second", func() error { _, err := q.reserve(t.Context(), 1); return err })
		wait("due", func() error { return q.reserveFirst(t.Context()) })
		wait("due later", func() error { return q.reserveFirst(t.Context()) })
		require.True(t, s.contended())
		q.release(1)
		synctest.Wait()
		require.Equal(t, []string{"due", "due later", "first", "second"}, order)
		require.False(t, s.contended())
	})
}

func TestSlotsCancelledWaiterLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		q := s.share()
		_, err := q.reserve(t.Context(), 1)
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { _, err := q.reserve(ctx, 1); failed <- err }()
		synctest.Wait()
		cancel(ErrShutdown)
		require.ErrorIs(t, <-failed, ErrShutdown)
		q.release(1)
		n, err := q.reserve(t.Context(), 3)
		require.NoError(t, err)
		require.Equal(t, 1, n, "the slot granted to nobody is free")
	})
}

func TestSlotsNeverExceedTheirNumber(t *testing.T) {
	const size = 3
	s := newSlots(size)
	q := s.share()
	var held, most atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+round)%5 == 0 {
					cancel() // some give up before, some while they wait
				}
				n, err := q.reserve(ctx, 1+round%4)
				if err == nil {
					now := held.Add(int64(n))
					for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
					}
					held.Add(-int64(n))
					q.release(n)
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(size))
	n, err := q.reserve(t.Context(), 10)
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
			q := s.share()
			granted := make(chan int, 1000)
			asked, used := 0, 0
			for range 200 {
				before := used
				switch random.IntN(3) {
				case 0:
					most := 1 + random.IntN(4)
					asked++
					go func() {
						n, err := q.reserve(context.Background(), most)
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
						q.release(back)
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
	q := s.share()
	var held, most atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for round := range 300 {
				_, end := s.lend(t.Context())
				n, err := q.reserve(t.Context(), 1+(i+round)%4)
				if err != nil {
					t.Error(err)
				}
				raise(&most, held.Add(int64(n)))
				held.Add(-int64(n))
				end()
				q.release(n)
			}
		})
	}
	for round := range 1000 {
		s.resize(1 + round%size)
	}
	s.resize(size)
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(size))
	n, err := q.reserve(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, size, n, "every slot came back")
}

// TestSlotsAreNotLentWhileTooManyAreInUse: who has reserved them before a resize must
// give them back at once.
func TestSlotsAreNotLentWhileTooManyAreInUse(t *testing.T) {
	s := newSlots(3)
	q := s.share()
	n, err := q.reserve(t.Context(), 3)
	require.NoError(t, err)
	before, end := s.lend(t.Context())
	defer end()
	require.NoError(t, before.Err())
	s.resize(1)
	require.Error(t, before.Err(), "recalled")
	after, end := s.lend(t.Context())
	defer end()
	require.Error(t, after.Err(), "not lent")
	q.release(n)
	enough, end := s.lend(t.Context())
	defer end()
	require.NoError(t, enough.Err())
}

// TestSlotsAreShared: busy queues come to as many slots each, and what one leaves goes
// to the others.
func TestSlotsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8)
		slow, fast := s.share(), s.share()
		take := func(q *share, most int) int {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make(chan int, 1)
			go func() { n, _ := q.reserve(ctx, most); got <- n }()
			synctest.Wait()
			cancel()
			return <-got
		}
		slow.setBusy(true)
		require.Equal(t, 8, take(slow, 8), "nobody else wants one")
		fast.setBusy(true)
		slow.release(1)
		require.Zero(t, take(slow, 8), "the slot is the other's")
		require.Equal(t, 1, take(fast, 8))
		slow.release(3)
		require.Equal(t, 3, take(fast, 8))
		require.Equal(t, []int{4, 4}, []int{slow.held, fast.held})
		fast.release(2)
		require.Zero(t, take(slow, 8), "it has its share")
		fast.setBusy(false)
		require.Equal(t, 2, take(slow, 8), "the other has nothing to do")
		require.Zero(t, take(fast, 1))
		fast.setBusy(true)
		slow.release(1)
		require.Equal(t, 1, take(fast, 8))

		// Whoever goes first takes no notice.
		slow.release(1)
		require.NoError(t, slow.reserveFirst(t.Context()))
		require.Equal(t, 5, slow.held)
		require.Equal(t, 3, fast.held)

		// More queues than slots: each gets one in its turn.
		few := newSlots(1)
		one, two := few.share(), few.share()
		one.setBusy(true)
		two.setBusy(true)
		require.Equal(t, 1, take(one, 1))
		got := make(chan int, 1)
		go func() { n, _ := two.reserve(t.Context(), 1); got <- n }()
		synctest.Wait()
		one.release(1)
		require.Equal(t, 1, <-got)
	})
}

// TestSlotsSharedAtRandom: no slot is lost or made, nobody waits beside a free slot that
// is nobody's, and a queue that waits below its share waits for slots in use.
func TestSlotsSharedAtRandom(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := newSlots(1 + random.IntN(8))
			queues := make([]*share, 1+random.IntN(4))
			for i := range queues {
				queues[i] = s.share()
			}
			var asked atomic.Int64
			for range 300 {
				q := queues[random.IntN(len(queues))]
				switch random.IntN(4) {
				case 0:
					most := 1 + random.IntN(4)
					asked.Add(1)
					go func() {
						_, err := q.reserve(context.Background(), most)
						if err != nil {
							t.Error(err)
						}
						asked.Add(-1)
					}()
				case 1:
					if q.held > 0 {
						q.release(1 + random.IntN(q.held))
					}
				case 2:
					q.setBusy(random.IntN(2) == 0)
				default:
					s.resize(1 + random.IntN(8))
				}
				synctest.Wait()
				held := 0
				for _, q := range queues {
					held += q.held
				}
				require.Equal(t, s.size, held+s.free, "seed %d", seed)
				for _, w := range s.waiters {
					require.LessOrEqual(t, min(s.free, s.allowed(w.share)), 0, "seed %d: one waits for what it may have", seed)
				}
			}
			for _, q := range queues {
				q.setBusy(false)
			}
			s.resize(1000)
			synctest.Wait()
			require.Zero(t, asked.Load(), "everybody is served in the end")
		})
	}
}

// TestASlowQueueBesideAFastOne: long tasks don't keep the slots that another queue could
// use many times meanwhile.
func TestASlowQueueBesideAFastOne(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.options.Queues, h.options.Concurrency = []string{"slow", "fast"}, 8
		h.broker.latency = 2 * time.Millisecond // else nobody waits while another one asks
		var slow, fast atomic.Int64
		h.handle("slow", func(context.Context, tasks.Arguments) (any, error) { elapse(time.Second); slow.Add(1); return nil, nil })
		h.handle("fast", func(context.Context, tasks.Arguments) (any, error) {
			elapse(10 * time.Millisecond)
			fast.Add(1)
			return nil, nil
		})
		for range 200 {
			h.broker.put("slow", &fakeMessage{body: encode(t, &protocol.Message{Task: "slow", Queue: "slow"})})
		}
		h.start()
		elapse(5 * time.Second) // the slow queue has all slots
		synctest.Wait()
		require.Equal(t, 8, h.worker.Load().Busy)
		for range 4000 {
			h.broker.put("fast", &fakeMessage{body: encode(t, &protocol.Message{Task: "fast", Queue: "fast"})})
		}
		elapse(2 * time.Second) // its tasks give them back as they end
		slowBefore, before := slow.Load(), fast.Load()
		elapse(5 * time.Second)
		synctest.Wait()
		const half = 5 * 4 * 1000 / 12 // four slots, ten milliseconds and the latency for each task
		require.GreaterOrEqual(t, fast.Load()-before, int64(half*9/10))
		require.GreaterOrEqual(t, slow.Load()-slowBefore, int64(18), "the slow queue has the other half: 20 tasks")
	})
}
