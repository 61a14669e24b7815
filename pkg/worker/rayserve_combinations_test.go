package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/protocol/rayserve"
	"github.com/lovage-project/lovage/pkg/results"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// rayScenario is a scenario whose messages are Ray Serve's.
type rayScenario struct {
	*scenario
	results *rayChaosBackend
	letters *letterHook
	sent    []raySent

	running sync.WaitGroup // callers that cancel or ask
	// under scenario.mu
	cutShort                       map[string]int // runs that a cold shutdown ended, by id
	succeeded, rejected, cancelled map[string]bool
}

// raySent is a message and what is known of it before.
type raySent struct {
	id, body string
	kind     string
	copies   int
	message  fakeMessage
	stored   protocol.State // before it is sent; cancelled or left by a worker that died
	cancelAt time.Duration  // 0 = never
}

// rayChaosBackend fails as one of results/rayserve does, which keeps the ends that it
// can't store; or, if it is raw, as any.
type rayChaosBackend struct {
	callersBackend
	chaos *chaos
	raw   bool
}

func (b *rayChaosBackend) Store(ctx context.Context, m protocol.Meta, o results.StoreOptions) error {
	if _, fails := b.chaos.strikes("store", 1); fails {
		if b.raw || !m.Status.Ready() {
			return errBoom
		}
		_ = pause.For(ctx, 17*time.Second)
	}
	return b.callersBackend.Store(ctx, m, o)
}

func (b *rayChaosBackend) Fetch(ctx context.Context, id string) (protocol.Meta, error) {
	if _, fails := b.chaos.strikes("fetch", 1); fails {
		_ = pause.For(ctx, 2*time.Second)
		return protocol.Meta{}, errBoom
	}
	return b.callersBackend.Fetch(ctx, id)
}

func newRayScenario(t *testing.T, seed uint64) *rayScenario {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 5))
	base := &scenario{
		harness: newHarness(t), chaos: &chaos{random: random},
		begun: map[string]int{}, ended: map[string]bool{}, ignored: map[string]bool{}, now: map[string]int{},
	}
	s := &rayScenario{
		scenario: base, letters: &letterHook{}, cutShort: map[string]int{},
		succeeded: map[string]bool{}, rejected: map[string]bool{}, cancelled: map[string]bool{},
		results: &rayChaosBackend{
			callersBackend: callersBackend{fakeBackend: newFakeBackend(base.journal)}, chaos: base.chaos, raw: random.IntN(3) == 0,
		},
	}
	if seed%4 != 0 {
		s.chaos.rate = []float64{0.02, 0.1, 0.3}[random.IntN(3)]
		s.chaos.plan()
	}
	coin := func() bool { return random.IntN(2) == 0 }
	queue := RayServeQueue{Backend: s.results}
	if coin() {
		queue.MaxRetries = random.IntN(4)
	}
	if coin() {
		queue.FailedTaskQueue = "failed"
	}
	if coin() {
		queue.UnprocessableTaskQueue = "odd"
	}
	s.options.Concurrency = 1 + random.IntN(4)
	s.options.AcksLate = true // as the queue is, whatever is set
	s.options.TrackStarted = coin()
	s.options.Queues = []string{"models"}
	s.options.RayServe = map[string]RayServeQueue{"models": queue}
	s.broker.capabilities.CountsAttempts = coin()
	s.handle("t", s.handler)
	s.registry.AddHook(s.scenario)
	s.registry.AddHook(s.letters)
	for i := range 10 {
		s.sent = append(s.sent, s.message(random, fmt.Sprintf("id%d", i)))
	}
	return s
}

func (*rayScenario) message(random *rand.Rand, id string) raySent {
	m := raySent{id: id, kind: "task", copies: 1 + random.IntN(2)}
	task := rayserve.Task{ID: id, Name: "t"}
	switch random.IntN(8) {
	case 0:
		m.kind, task.Name = "unknown", "nobody"
	case 1:
		m.kind, m.copies = "malformed", 1
	}
	body, err := rayserve.EncodeTask(task)
	if err != nil {
		panic(err)
	}
	m.body = string(body)
	if m.kind == "malformed" {
		m.body = strings.Replace(m.body, `"t"`, `7`, 1)
	}
	if random.IntN(3) == 0 {
		m.message.limit, m.message.limitQueue = 1+random.IntN(4), "producers"
	}
	if m.kind != "task" {
		return m
	}
	if random.IntN(4) == 0 { // workers died with it
		m.message.starts = 1 + random.IntN(3)
		m.stored = []protocol.State{"", protocol.StateSuccess, protocol.StateFailure}[random.IntN(3)]
	}
	switch random.IntN(6) {
	case 0:
		m.stored = protocol.StateRevoked
	case 1:
		m.cancelAt = time.Duration(1+random.IntN(30_000)) * time.Millisecond
	}
	return m
}

func (s *rayScenario) handler(ctx context.Context, _ tasks.Arguments) (value any, err error) {
	request, _ := tasks.RequestFrom(ctx)
	s.mu.Lock()
	s.begun[request.ID]++
	s.now[request.ID]++
	if s.now[request.ID] > 1 {
		s.twice = append(s.twice, request.ID)
	}
	calm := s.calm || s.begun[request.ID] > 12
	s.mu.Unlock()
	end := func(what map[string]bool) { s.is(what, request.ID) }
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now[request.ID]--
	}()
	if calm {
		end(s.succeeded)
		return "calm", nil
	}
	if pause.For(ctx, time.Duration(s.chaos.number(10_000))*time.Millisecond) != nil {
		if s.worker.workContext.Err() != nil {
			s.mu.Lock()
			s.cutShort[request.ID]++
			s.mu.Unlock()
		}
		return nil, context.Cause(ctx)
	}
	switch s.chaos.number(10) {
	case 0, 1:
		return nil, errBoom
	case 2:
		return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Duration(s.chaos.number(4000))*time.Millisecond))
	case 3:
		end(s.rejected)
		return nil, tasks.Reject("never", false)
	case 4:
		return nil, tasks.Reject("later", true)
	case 5:
		end(s.succeeded)
		return nil, tasks.Ignore("no")
	case 6:
		runtime.Goexit()
	case 7:
		panic("boom")
	}
	end(s.succeeded)
	return "done", nil
}

func (s *rayScenario) is(what map[string]bool, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what[id] = true
}

// send does what producers do, and what callers do while they wait.
func (s *rayScenario) send(random *rand.Rand, within time.Duration) {
	ctx := context.Background()
	for _, m := range s.sent {
		for _, state := range []protocol.State{protocol.StatePending, m.stored} {
			if state != "" && m.kind != "malformed" {
				require.NoError(s.t, s.results.callersBackend.Store(ctx, s.metaOf(m.id, state), results.StoreOptions{}))
			}
		}
		for range m.copies {
			message := m.message
			message.body = []byte(m.body)
			s.broker.put("models", &message)
		}
		if m.stored == protocol.StateRevoked {
			s.is(s.cancelled, m.id)
		}
		if m.cancelAt > 0 {
			s.running.Go(func() {
				elapse(m.cancelAt)
				s.is(s.cancelled, m.id)
				if err := s.results.callersBackend.Store(ctx, meta(m.id, protocol.StateRevoked), results.StoreOptions{}); err != nil {
					s.t.Error(err)
				}
			})
		}
	}
	body, err := rayserve.EncodeQuery(rayserve.Query{Name: "t"})
	require.NoError(s.t, err)
	for range random.IntN(5) {
		at, timeout := time.Duration(random.Int64N(int64(within))), time.Duration(1+random.IntN(20))*time.Second
		s.running.Go(func() {
			elapse(at)
			answer, answered := s.broker.query("models", body, timeout)
			if answered && !strings.Contains(string(answer), `"status": "`) {
				s.t.Errorf("no answer: %s", answer)
			}
		})
	}
}

func (*rayScenario) metaOf(id string, state protocol.State) protocol.Meta {
	m := meta(id, state)
	if state == protocol.StateFailure {
		m.Result = protocol.Exception{Type: "ValueError", Args: []any{"before"}}
	}
	return m
}

// limit is how often a message may be delivered, 0 = as often as it takes.
func (s *rayScenario) limit(m raySent) int {
	own := s.options.RayServe["models"].ceiling()
	if asked := m.message.limit; asked > 0 && (own == 0 || asked < own) {
		return asked
	}
	return own
}

// requireAccounted, after a calm worker has had its time: each message has one end, the
// right one, and is where that puts it.
func (s *rayScenario) requireAccounted() {
	require.Empty(s.t, s.broker.waiting("models"))
	letters, odd := map[string]int{}, 0
	for _, queue := range []string{"failed", "producers"} {
		for _, letter := range s.broker.waiting(queue) {
			letters[letter.letter.ID]++
		}
	}
	told := map[string]int{}
	for _, line := range s.letters.told {
		id, _, _ := strings.Cut(line, ":")
		told[id]++
	}
	require.Equal(s.t, letters, told, "on_dlq is called once for each letter")
	for _, event := range seen[MessageUnprocessable](s.recorder) {
		if event.Fate == Kept {
			odd++
		}
	}
	for _, event := range seen[TaskUnknown](s.recorder) {
		if event.Fate == Kept {
			odd++
		}
	}
	require.Len(s.t, s.broker.waiting("odd"), odd, "what is told as kept is kept")
	for _, m := range s.sent {
		s.requireEnd(m, letters[m.id])
	}
}

func (s *rayScenario) requireEnd(m raySent, letters int) {
	last, err := s.results.last(m.id)
	if s.results.raw && (m.kind != "task" || letters > 0) && !last.Status.Ready() {
		return // the message is put aside, stored or not
	}
	require.NoError(s.t, err, m.id)
	states := fmt.Sprint(m.id, " ", m.kind, " ", s.results.states(m.id))
	require.True(s.t, last.Status.Ready(), "a caller waits for ever: %s", states)
	if m.kind != "task" {
		require.Equal(s.t, protocol.StateFailure, last.Status, states)
		require.Zero(s.t, s.begun[m.id], states)
		return
	}
	switch last.Status {
	case protocol.StateSuccess:
		require.True(s.t, s.succeeded[m.id] || m.stored == protocol.StateSuccess, states)
	case protocol.StateRevoked:
		require.True(s.t, s.cancelled[m.id], states)
	default:
		kept := s.limit(m) > 0 || s.options.RayServe["models"].FailedTaskQueue != "" || m.message.limitQueue != ""
		require.True(s.t, letters > 0 || !kept, "a failure is nowhere: %s", states)
		require.True(s.t, kept || s.rejected[m.id], "nothing ends it without a limit: %s", states)
		if s.chaos.calmFromTheStart() && m.stored == protocol.StateFailure && s.begun[m.id] == 0 {
			require.Equal(s.t, "ValueError('before')", fmt.Sprint(last.Result), "why it failed is lost: %s", states)
		}
	}
	if limit := s.limit(m); limit > 0 {
		require.LessOrEqual(s.t, s.begun[m.id]-s.cutShort[m.id], limit*(m.copies+s.chaos.twins), "runs of %s", states)
	}
	if s.chaos.calmFromTheStart() && (m.stored == protocol.StateRevoked || m.stored == protocol.StateSuccess) {
		require.Zero(s.t, s.begun[m.id], "it had ended: %s", states)
	}
}

// TestRayServeCombinations is TestCombinations for a Ray Serve queue: limits, outcomes,
// faults, crashes before, and callers that cancel and ask.
func TestRayServeCombinations(t *testing.T) {
	for seed := range uint64(120) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRayScenario(t, seed)
				s.begin()
				within := time.Duration(1+s.chaos.number(120)) * time.Second
				s.send(rand.New(rand.NewPCG(seed, 6)), within)
				elapse(within)
				synctest.Wait()
				s.end()
				s.running.Wait()

				s.chaos.heal()
				s.mu.Lock()
				s.calm = true
				s.mu.Unlock()
				s.begin()
				elapse(time.Hour)
				s.end()
				s.requireAccounted()
			})
		})
	}
}
