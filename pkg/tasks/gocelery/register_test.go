package gocelery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
	lovage "github.com/lovage-project/lovage/pkg/tasks/gocelery"
)

func run(t *testing.T, task any, args []any, kwargs map[string]any) (any, error) {
	t.Helper()
	r := tasks.NewRegistry()
	lovage.Register(r, "worker.call", task)
	require.NoError(t, r.Err())
	registered, ok := r.Lookup("worker.call")
	require.True(t, ok)
	return registered.Run(t.Context(), tasks.Arguments{Args: args, Kwargs: kwargs})
}

func requireTypeError(t *testing.T, err error, text string) {
	t.Helper()
	var argumentError *tasks.ArgumentError
	require.ErrorAs(t, err, &argumentError)
	require.Equal(t, text, argumentError.Text)
}

// The functions of gocelery's own tests and examples.
func TestRegisterFunction(t *testing.T) {
	cases := map[string]struct {
		task any
		args []any
		want any
	}{
		"no arguments": {func() int { return 5545 }, nil, 5545},
		"ints":         {func(a, b int) int { return a + b }, []any{int64(2485), int64(6468)}, 8953},
		"whole floats": {func(a, b int) int { return a + b }, []any{2485.0, 6468.0}, 8953},
		"strings":      {func(a, b string) string { return a + b }, []any{"hello", "world"}, "helloworld"},
		"float32":      {func(a, b float32) float32 { return a + b }, []any{0.5, 0.25}, float32(0.75)},
		"bool":         {func(a, b bool) bool { return a && b }, []any{true, false}, false},
		"arrays":       {func(a, b []string) []string { return append(a, b...) }, []any{[]any{"a"}, []any{"b"}}, []string{"a", "b"}},
		"maps":         {func(a map[string]string) map[string]string { return a }, []any{map[string]any{"a": "b"}}, map[string]string{"a": "b"}},
		// gocelery panics for these types.
		"int64":    {func(a int64) int64 { return a }, []any{int64(1<<53 + 1)}, int64(1<<53 + 1)},
		"null":     {func(a *int) bool { return a == nil }, []any{nil}, true},
		"variadic": {func(a int, rest ...string) string { return fmt.Sprint(a, rest) }, []any{int64(1), "x", "y"}, "1 [x y]"},
		"nothing":  {func(int) {}, []any{int64(1)}, nil},
		// The first result counts, as in gocelery.
		"two results":      {func() (int, string) { return 1, "dropped" }, nil, 1},
		"result and error": {func() (int, error) { return 1, nil }, nil, 1},
		"error alone":      {func() error { return nil }, nil, nil},
		"nil result":       {func() any { return nil }, nil, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			result, err := run(t, c.task, c.args, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, result)
		})
	}
}

func TestRegisterFunctionArgumentErrors(t *testing.T) {
	add := func(a, b int) int { return a + b }
	cases := map[string]struct {
		task   any
		args   []any
		kwargs map[string]any
		want   string
	}{
		"too few":     {add, []any{int64(1)}, nil, "call() missing 1 required positional argument: 'arg2'"},
		"too many":    {add, []any{int64(1), int64(2), int64(3)}, nil, "call() takes 2 positional arguments but 3 were given"},
		"keyword":     {add, []any{int64(1), int64(2)}, map[string]any{"x": int64(1)}, "call() got an unexpected keyword argument 'x'"},
		"fraction":    {add, []any{1.5, int64(2)}, nil, "call() argument 'arg1': 1.5 is not an integer"},
		"out of int8": {func(int8) {}, []any{int64(200)}, nil, "call() argument 'arg1': 200 is out of range for int8 (-128 to 127)"},
		"null":        {add, []any{nil, int64(2)}, nil, "call() argument 'arg1' must be int, not NoneType"},
		"no pointer":  {func(*int) {}, nil, nil, "call() missing 1 required positional argument: 'arg1'"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, c.task, c.args, c.kwargs)
			requireTypeError(t, err, c.want)
		})
	}
}

func TestRegisterFunctionFails(t *testing.T) {
	for name, task := range map[string]any{
		"result and error": func() (int, error) { return 1, io.EOF },
		"error alone":      func() error { return io.EOF },
	} {
		t.Run(name, func(t *testing.T) {
			result, err := run(t, task, nil, nil)
			require.Nil(t, result)
			require.ErrorIs(t, err, io.EOF)
		})
	}
	_, err := run(t, func() int { panic("boom") }, nil, nil)
	var panicked *tasks.PanicError
	require.ErrorAs(t, err, &panicked)
}

// In parameters that hold interfaces values are what encoding/json made of them.
func TestRegisterFunctionOfInterfaces(t *testing.T) {
	huge, _ := new(big.Int).SetString("36893488147419103233", 10) // 2^65+1
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	var got []any
	task := func(args ...any) { got = args }
	_, err := run(t, task, []any{
		int64(3), int64(1<<53 + 1), new(big.Int).Lsh(big.NewInt(1), 80), huge, 1.5, "x", nil,
		[]any{int64(1), map[string]any{"n": int64(2)}},
		at, at.In(time.FixedZone("", 3600)), protocol.NaiveDateTime{Time: at}, protocol.Date{Year: 2020, Month: 1, Day: 2},
		protocol.TimeOfDay("03:04"), protocol.Decimal("1.10"), uuid.MustParse("11111111-2222-4333-8444-555555555555"),
		[]byte("text"), []byte{0xff, 0},
	}, nil)
	require.NoError(t, err)
	require.Equal(t, []any{
		3.0, int64(1<<53 + 1), 0x1p80, huge, 1.5, "x", nil,
		[]any{1.0, map[string]any{"n": 2.0}},
		"2020-01-02T03:04:05Z", "2020-01-02T04:04:05+01:00", "2020-01-02T03:04:05", "2020-01-02T00:00:00",
		"03:04", "1.10", "11111111-2222-4333-8444-555555555555",
		"text", "/wA=",
	}, got)
}

func TestRegisterFunctionWithContext(t *testing.T) {
	r := tasks.NewRegistry()
	lovage.Register(r, "worker.flaky", func(ctx context.Context, _ string) (int, error) {
		return 0, tasks.Retry(ctx, io.EOF, tasks.Countdown(time.Second))
	}, tasks.AcksLate())
	require.NoError(t, r.Err())
	task, _ := r.Lookup("worker.flaky")
	require.True(t, *task.Options().AcksLate)

	ctx := tasks.WithRequest(t.Context(), &tasks.Request{MaxRetries: 1})
	_, err := task.Run(ctx, tasks.Arguments{Args: []any{"x"}})

	outcome, ok := tasks.OutcomeOf(err)
	require.True(t, ok)
	require.Equal(t, &tasks.RetryError{Cause: io.EOF, Countdown: time.Second}, outcome)
}

// addTask is the CeleryTask of gocelery's examples, unchanged but for a field that
// is set before registration.
type addTask struct {
	offset int
	a, b   int
}

func (t *addTask) ParseKwargs(kwargs map[string]any) error {
	kwargA, ok := kwargs["a"]
	if !ok {
		return errors.New("undefined kwarg a")
	}
	kwargAFloat, ok := kwargA.(float64)
	if !ok {
		return errors.New("malformed kwarg a")
	}
	t.a = int(kwargAFloat)
	kwargB, ok := kwargs["b"]
	if !ok {
		return errors.New("undefined kwarg b")
	}
	kwargBFloat, ok := kwargB.(float64)
	if !ok {
		return errors.New("malformed kwarg b")
	}
	t.b = int(kwargBFloat)
	return nil
}

func (t *addTask) RunTask() (any, error) {
	if t.b < 0 {
		return nil, io.EOF
	}
	return t.offset + t.a + t.b, nil
}

func TestRegisterCeleryTask(t *testing.T) {
	original := &addTask{offset: 100}
	result, err := run(t, original, nil, map[string]any{"a": int64(2), "b": int64(3)})
	require.NoError(t, err)
	require.Equal(t, 105, result)
	require.Equal(t, &addTask{offset: 100}, original)

	_, err = run(t, original, nil, map[string]any{"a": int64(2), "b": int64(-1)})
	require.ErrorIs(t, err, io.EOF)

	_, err = run(t, original, nil, map[string]any{"a": int64(2)})
	requireTypeError(t, err, "call() undefined kwarg b")

	_, err = run(t, original, nil, map[string]any{"a": int64(1<<53 + 1), "b": int64(1)})
	requireTypeError(t, err, "call() malformed kwarg a")

	_, err = run(t, original, []any{int64(1)}, nil)
	requireTypeError(t, err, "call() takes 0 positional arguments but 1 was given")
}

// Each run has an instance of its own; the race detector sees it otherwise.
func TestCeleryTaskRunsConcurrently(t *testing.T) {
	r := tasks.NewRegistry()
	lovage.Register(r, "worker.add", &addTask{})
	require.NoError(t, r.Err())
	task, _ := r.Lookup("worker.add")
	results := make([]any, 50)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			results[i], _ = task.Run(t.Context(), tasks.Arguments{Kwargs: map[string]any{"a": int64(i), "b": int64(i)}})
		})
	}
	group.Wait()
	for i, result := range results {
		require.Equal(t, 2*i, result)
	}
}

// sharedTask can't be copied: it is a map.
type sharedTask map[string]float64

func (t sharedTask) ParseKwargs(kwargs map[string]any) error {
	t["n"] = kwargs["n"].(float64)
	return nil
}

func (t sharedTask) RunTask() (any, error) { return t["n"], nil }

func TestCeleryTaskThatIsShared(t *testing.T) {
	r := tasks.NewRegistry()
	lovage.Register(r, "worker.shared", sharedTask{})
	require.NoError(t, r.Err())
	task, _ := r.Lookup("worker.shared")
	results := make([]any, 50)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			// A panic must not keep the task locked.
			_, _ = task.Run(t.Context(), tasks.Arguments{})
			results[i], _ = task.Run(t.Context(), tasks.Arguments{Kwargs: map[string]any{"n": int64(i)}})
		})
	}
	group.Wait()
	for i, result := range results {
		require.Equal(t, any(float64(i)), result)
	}
}

func TestRegisterMistakes(t *testing.T) {
	cases := map[string]struct {
		task any
		want string
	}{
		"nil":      {nil, "the task is nil"},
		"nil func": {(func())(nil), "the task is nil"},
		"nil task": {(*addTask)(nil), "the task is nil"},
		"number":   {5, "a task is a function or a gocelery.CeleryTask, not a int"},
		"channel":  {func(chan int) {}, "field Arg1: no argument can become chan int"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := tasks.NewRegistry()
			lovage.Register(r, "worker.bad", c.task)
			require.EqualError(t, r.Err(), `tasks: can't register "worker.bad": `+c.want)
			require.Empty(t, r.Names())
		})
	}
}

// What ParseKwargs says is stored: it must not be lost.
func TestParseKwargsErrorKeepsItsChain(t *testing.T) {
	_, err := run(t, &addTask{}, nil, nil)
	var argumentError *tasks.ArgumentError
	require.ErrorAs(t, err, &argumentError)
	require.EqualError(t, argumentError.Unwrap(), "undefined kwarg a")
	require.True(t, strings.HasPrefix(err.Error(), "tasks: call() "))
}
