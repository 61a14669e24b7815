package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/internal/pause"
	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// scenario is a worker with settings, messages, handlers, faults and an end, all of
// them made of one number.
type scenario struct {
	*harness
	chaos    *chaos
	messages []protocol.Message

	mu      sync.Mutex
	begun   map[string]int  // runs of a task, by id
	ended   map[string]bool // a run has ended for good: in a success, a failure, an ignore or a reject
	ignored map[string]bool // the last run was ignored
	now     map[string]int  // runs of one message at this moment, by id and retries
	twice   []string
	calm    bool // every handler succeeds
	pre     int
	post    int
}

func (s *scenario) OnPrerun(context.Context, *tasks.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pre++
}

func (s *scenario) OnPostrun(context.Context, *tasks.Request, string, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.post++
}

func newScenario(t *testing.T, seed uint64) *scenario {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 4))
	s := &scenario{
		harness: newHarness(t), chaos: &chaos{random: random},
		begun: map[string]int{}, ended: map[string]bool{}, ignored: map[string]bool{}, now: map[string]int{},
	}
	if seed%4 != 0 {
		s.chaos.rate = []float64{0.02, 0.1, 0.3}[random.IntN(3)]
		s.chaos.plan()
	}
	coin := func() bool { return random.IntN(2) == 0 }
	o := &s.options
	o.Concurrency = 1 + random.IntN(4)
	o.AcksLate, o.AcksOnFailure, o.RejectOnWorkerLost = coin(), coin(), coin()
	o.TrackStarted, o.ResultExtended = coin(), coin()
	o.AutoAck = random.IntN(4) == 0
	if coin() {
		o.DeadLetterQueue = "dead"
		o.MaxAttempts = random.IntN(4)
	}
	if random.IntN(4) == 0 {
		o.DedupWindow = random.IntN(3)
	}
	s.broker.capabilities.CountsAttempts = coin()
	s.backend.fail = s.chaos.store(s.backend)
	s.handle("t", s.handler)
	s.registry.AddHook(s)
	for i := range 8 {
		s.messages = append(s.messages, s.message(random, fmt.Sprintf("id%d", i)))
	}
	return s
}

func (s *scenario) message(random *rand.Rand, id string) protocol.Message {
	m := protocol.Message{Task: "t", ID: id}
	step := func(name string) protocol.Signature {
		sig := next(name)
		sig.Options["task_id"] = name + " of " + id
		return sig
	}
	if random.IntN(2) == 0 {
		m.Chain = []protocol.Signature{step("third"), step("second")}
	}
	if random.IntN(2) == 0 {
		m.Callbacks = []protocol.Signature{step("callback")}
	}
	if random.IntN(2) == 0 {
		m.Errbacks = []protocol.Signature{step("errback")}
	}
	if random.IntN(4) == 0 {
		m.ETA = time.Now().Add(time.Duration(random.IntN(5000)) * time.Millisecond)
	}
	if random.IntN(8) == 0 {
		m.Expires = time.Now().Add(time.Duration(random.IntN(5000)) * time.Millisecond)
	}
	if random.IntN(4) == 0 {
		ignore := true
		m.IgnoreResult = &ignore
	}
	return m
}

func (s *scenario) handler(ctx context.Context, _ tasks.Arguments) (value any, err error) {
	request, _ := tasks.RequestFrom(ctx)
	which := fmt.Sprintf("%s %d", request.ID, request.Retries)
	s.mu.Lock()
	s.begun[request.ID]++
	s.now[which]++
	if s.now[which] > 1 {
		s.twice = append(s.twice, which)
	}
	calm := s.calm || s.begun[request.ID] > 5
	s.mu.Unlock()
	final, ignored := true, false
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now[which]--
		s.ended[request.ID] = s.ended[request.ID] || final
		s.ignored[request.ID] = ignored
	}()
	if calm {
		return "calm", nil
	}
	if pause.For(ctx, time.Duration(s.chaos.number(10_000))*time.Millisecond) != nil {
		final = false
		return nil, context.Cause(ctx)
	}
	switch s.chaos.number(10) {
	case 0:
		return nil, errBoom
	case 1, 2:
		final = request.Retries >= 3
		return nil, tasks.Retry(ctx, errBoom, tasks.Countdown(time.Duration(s.chaos.number(4000))*time.Millisecond))
	case 3:
		return nil, tasks.Reject("never", false)
	case 4:
		final = false
		return nil, tasks.Reject("later", true)
	case 5:
		ignored = true
		return nil, tasks.Ignore("no")
	case 6:
		final = !s.options.RejectOnWorkerLost || !s.late()
		runtime.Goexit()
	case 7:
		panic("boom")
	}
	return "done", nil
}

func (s *scenario) late() bool { return s.options.AcksLate && !s.options.AutoAck }

func (s *scenario) begin() {
	w, err := New(s.options, s.registry, &chaosBroker{s.broker, s.chaos}, s.backend, s.recorder)
	require.NoError(s.t, err)
	require.NoError(s.t, w.Start(context.Background()))
	s.worker = w
}

// end stops the worker, warm or cold, and looks at what it leaves.
func (s *scenario) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.chaos.number(60))*time.Second)
	defer cancel()
	_ = s.worker.Stop(ctx) // handlers end when they are cancelled, settling may take longer
	require.NoError(s.t, s.worker.Stop(context.Background()))
	synctest.Wait()
	s.requireAtRest()
	require.Equal(s.t, s.options.Concurrency, s.worker.slots.free, "a slot is missing")
	s.requireOneEnd()
	require.Equal(s.t, s.pre, s.post, "prerun and postrun hooks")
	if s.options.DedupWindow > 2 {
		require.Empty(s.t, s.twice, "a message runs twice at the same time")
	}
}

// requireOneEnd: the observers hear of one end for each run.
func (s *scenario) requireOneEnd() {
	ends := map[*tasks.Request][]string{}
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	for _, event := range s.recorder.events {
		add := func(request *tasks.Request) { ends[request] = append(ends[request], fmt.Sprintf("%T", event)) }
		switch e := event.(type) {
		case TaskSucceeded:
			add(e.Request)
		case TaskFailed:
			add(e.Request)
		case TaskRetried:
			add(e.Request)
		case TaskIgnored:
			add(e.Request)
		case TaskRevoked:
			add(e.Request)
		case TaskCancelled:
			add(e.Request)
		case TaskRejected:
			if e.Requeue {
				add(e.Request)
			}
		case TaskEnded:
			if n := len(ends[e.Request]); n != 1 && (n != 0 || s.late()) { // an early requeue has no event
				require.Len(s.t, ends[e.Request], 1, "%s", e.Request.ID)
			}
		}
	}
}

// requireNothingLost, after a calm worker has had its time.
func (s *scenario) requireNothingLost() {
	letters := map[string]bool{}
	for _, queue := range []string{"dead", "celery.unprocessable"} {
		for _, letter := range s.broker.waiting(queue) {
			letters[letter.letter.ID] = true
		}
	}
	require.Empty(s.t, s.broker.waiting("celery"))
	if s.options.AutoAck { // what can't be given back is gone, as in a crash
		for _, failed := range seen[SettleFailed](s.recorder) {
			s.ended[failed.ID] = true
		}
	}
	for _, revoked := range seen[TaskRevoked](s.recorder) {
		s.ended[revoked.Request.ID] = true
	}
	for i := range s.messages {
		m := &s.messages[i]
		states := s.backend.states(m.ID)
		last := protocol.Meta{}
		if len(states) > 0 {
			last = states[len(states)-1]
		}
		if !s.late() {
			require.True(s.t, s.begun[m.ID] > 0 || s.ended[m.ID] || last.Status.Ready() || letters[m.ID], "early %s is lost", m.ID)
			continue
		}
		require.True(s.t, s.ended[m.ID] || last.Status.Ready() || letters[m.ID], "%s is lost: %v", m.ID, states)
		if m.IgnoreResult != nil || s.ignored[m.ID] || letters[m.ID] { // a letter is kept also where nothing could be stored
			continue
		}
		require.True(s.t, last.Status.Ready(), "%s has no result: %v", m.ID, states)
		s.requireContinued(m, last)
	}
}

func (s *scenario) requireContinued(m *protocol.Message, last protocol.Meta) {
	published := map[string]bool{}
	for _, queue := range []string{"second", "callback", "errback"} {
		for _, message := range s.published(queue) {
			published[message.ID] = true
		}
	}
	switch last.Status {
	case protocol.StateSuccess:
		require.True(s.t, len(m.Chain) == 0 || published["second of "+m.ID], "%s: the chain ends", m.ID)
		require.True(s.t, len(m.Callbacks) == 0 || published["callback of "+m.ID], "%s: no callback", m.ID)
	case protocol.StateFailure:
		require.True(s.t, len(m.Errbacks) == 0 || published["errback of "+m.ID], "%s: no errback", m.ID)
		failed := slices.ContainsFunc(s.backend.states("second of "+m.ID), func(meta protocol.Meta) bool {
			return meta.Status == protocol.StateFailure
		})
		require.True(s.t, len(m.Chain) == 0 || failed || published["second of "+m.ID], "%s: the chain has no end", m.ID)
	default:
	}
}

// TestCombinations: whatever comes together, nothing is lost, nothing is left, and
// everybody hears of one end.
func TestCombinations(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScenario(t, seed)
				s.begin()
				for _, m := range s.messages {
					body := encode(t, &m)
					for range 1 + s.chaos.number(2) {
						s.broker.put("celery", &fakeMessage{body: body})
					}
				}
				elapse(time.Duration(s.chaos.number(120)) * time.Second)
				s.end()

				s.chaos.heal()
				s.mu.Lock()
				s.calm = true
				s.mu.Unlock()
				s.begin()
				elapse(time.Hour)
				s.end()
				s.requireNothingLost()
			})
		})
	}
}
