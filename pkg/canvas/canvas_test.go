package canvas

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
)

func task(name string, args ...any) protocol.Signature {
	return protocol.Signature{Task: name, Args: args, Options: map[string]any{}}
}

func chainOf(tasks ...protocol.Signature) protocol.Signature {
	return protocol.Signature{Task: "celery.chain", SubtaskType: typeChain, Kwargs: map[string]any{"tasks": values(tasks)}}
}

func chordOf(body protocol.Signature) protocol.Signature {
	return protocol.Signature{Task: "celery.chord", SubtaskType: typeChord, Kwargs: map[string]any{"header": []any{}, "body": body.Value()}}
}

func identified(sig protocol.Signature, id string) protocol.Signature {
	sig.Options = map[string]any{"task_id": id}
	return sig
}

var publisher = Publisher{DefaultQueue: "celery"}

func TestWhatIsNotSupported(t *testing.T) {
	chord := chordOf(task("body"))
	pickled := task("a")
	pickled.Options["serializer"] = "pickle"
	snappy := task("a")
	snappy.Options["compression"] = "snappy"
	for name, c := range map[string]struct {
		message protocol.Message
		want    string
	}{
		"chord as callback":        {protocol.Message{Callbacks: []protocol.Signature{task("a"), chord}}, "a chord as a continuation"},
		"chord as next step":       {protocol.Message{Chain: []protocol.Signature{task("z"), chord}}, "a chord as a continuation"},
		"chord as errback":         {protocol.Message{Errbacks: []protocol.Signature{chord}}, "a chord as a continuation"},
		"chord in a group":         {protocol.Message{Callbacks: []protocol.Signature{groupOf([]protocol.Signature{task("a"), chord})}}, "a chord as a continuation"},
		"chord first in a chain":   {protocol.Message{Callbacks: []protocol.Signature{chainOf(chord, task("a"))}}, "a chord as a continuation"},
		"group before a step":      {protocol.Message{Chain: []protocol.Signature{task("z"), groupOf([]protocol.Signature{task("a"), task("b")})}}, "a group inside a chain (a chord)"},
		"group inside a callback":  {protocol.Message{Callbacks: []protocol.Signature{chainOf(groupOf([]protocol.Signature{task("a"), task("b")}), task("c"))}}, "a group inside a chain (a chord)"},
		"serializer":               {protocol.Message{Callbacks: []protocol.Signature{pickled}}, "the serializer pickle"},
		"compression of a errback": {protocol.Message{Errbacks: []protocol.Signature{snappy}}, "the compression snappy"},
	} {
		t.Run(name, func(t *testing.T) {
			c.message.ID = "id"
			var unsupported *UnsupportedError
			require.ErrorAs(t, publisher.Check(&c.message), &unsupported)
			require.Equal(t, c.want, unsupported.What)
		})
	}
}

// TestLaterStepsAreTheNextWorkers: this worker publishes the next step only. What
// comes behind it is for those that run that.
func TestLaterStepsAreTheNextWorkers(t *testing.T) {
	m := &protocol.Message{ID: "id", Chain: []protocol.Signature{task("z"), chordOf(task("body")), task("a")}}
	require.NoError(t, publisher.Check(m))
	made, err := publisher.Success(m, nil, time.Now())
	require.NoError(t, err)
	require.Len(t, made.Messages, 1)
	require.Equal(t, values(m.Chain[:2]), values(made.Messages[0].Message.Chain))

	behind := &protocol.Message{ID: "id", Callbacks: []protocol.Signature{chainOf(task("a"), chordOf(task("body")))}}
	require.NoError(t, publisher.Check(behind))
}

func TestMalformed(t *testing.T) {
	nested := task("a")
	for range maxNesting + 1 {
		nested = groupOf([]protocol.Signature{task("b"), chainOf(task("c"), nested)})
	}
	noTasks := protocol.Signature{Task: "celery.group", SubtaskType: typeGroup}
	badMember := protocol.Signature{Task: "celery.chain", SubtaskType: typeChain, Kwargs: map[string]any{"tasks": []any{"a"}}}
	for name, c := range map[string]struct {
		sig  protocol.Signature
		want string
	}{
		"no tasks":     {noTasks, "a group without tasks"},
		"a bad member": {badMember, "invalid signature"},
		"unknown type": {protocol.Signature{Task: "a", SubtaskType: "spiral"}, "unknown subtask_type spiral"},
		"id":           {protocol.Signature{Task: "a", Options: map[string]any{"task_id": int64(1)}}, "task_id is 1"},
		"group id":     {protocol.Signature{Task: "g", SubtaskType: typeGroup, Kwargs: map[string]any{"tasks": []any{}}, Options: map[string]any{"task_id": 1.5}}, "task_id is 1.5"},
		"nesting":      {nested, "nested in more than 20 groups and chains"},
	} {
		t.Run(name, func(t *testing.T) {
			var invalid *protocol.InvalidTaskError
			err := publisher.Check(&protocol.Message{ID: "id", Callbacks: []protocol.Signature{c.sig}})
			require.ErrorAs(t, err, &invalid)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestIDsAreOfTheTask: a task that runs twice publishes the same again, another
// one something else, and no two of one continuation are equal.
func TestIDsAreOfTheTask(t *testing.T) {
	group := groupOf([]protocol.Signature{task("a"), chainOf(task("b"), task("c"), groupOf([]protocol.Signature{task("d"), task("e")}))})
	message := func(id string) *protocol.Message {
		return &protocol.Message{
			ID: id, Callbacks: []protocol.Signature{task("x"), group, task("y"), group},
			Chain: []protocol.Signature{group}, Errbacks: []protocol.Signature{task("x"), group},
		}
	}
	ids := func(id string) []string {
		success, err := publisher.Success(message(id), nil, time.Now())
		require.NoError(t, err)
		failure, err := publisher.Failure(message(id), time.Now())
		require.NoError(t, err)
		var text strings.Builder
		for _, outgoing := range slices.Concat(success.Messages, failure.Messages) {
			m := overTheWire(t, outgoing.Message)
			text.WriteString(m.ID + " ")
			rest, err := protocol.EncodeJSON(values(m.Chain))
			require.NoError(t, err)
			for _, id := range anID.FindAllString(string(rest), -1) {
				if id != m.GroupID && !strings.Contains(text.String(), id) { // the last step names its group
					text.WriteString(id + " ")
				}
			}
		}
		return strings.Fields(text.String())
	}
	first := ids("one")
	require.Equal(t, first, ids("one"))
	require.NotEqual(t, first[0], ids("two")[0])
	slices.Sort(first)
	require.Equal(t, slices.Compact(slices.Clone(first)), first, "none is there twice")
}

func TestTheReceivedMessageStaysAsItIs(t *testing.T) {
	m := &protocol.Message{
		ID: "id", Chain: []protocol.Signature{groupOf([]protocol.Signature{chainOf(task("a"), task("b")), task("c")})},
		Callbacks: []protocol.Signature{chainOf(task("a"), task("b"))}, Errbacks: []protocol.Signature{task("e", "x")},
	}
	before, err := protocol.EncodeJSON([]any{values(m.Chain), values(m.Callbacks), values(m.Errbacks)})
	require.NoError(t, err)
	require.NoError(t, publisher.Check(m))
	after, err := protocol.EncodeJSON([]any{values(m.Chain), values(m.Callbacks), values(m.Errbacks)})
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

func TestTimesCountFromThePublishing(t *testing.T) {
	zone := time.FixedZone("", 3600)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	sig := task("a")
	sig.Options = map[string]any{"countdown": 2.5, "eta": "2000-01-01T00:00:00", "expires": int64(-1)}
	p := Publisher{DefaultQueue: "celery", Timezone: zone}
	made, err := p.Failure(&protocol.Message{ID: "id", Errbacks: []protocol.Signature{sig}}, now)
	require.NoError(t, err)
	m := made.Messages[0].Message
	require.Equal(t, now.Add(2500*time.Millisecond).In(zone), m.ETA)
	require.Equal(t, now.Add(-time.Second).In(zone), m.Expires)
}

// TestChainAsErrback: Celery 5.7 calls the built-in task celery.chain inline for
// it, which raises; here it is sent.
func TestChainAsErrback(t *testing.T) {
	made, err := publisher.Failure(&protocol.Message{ID: "id", Errbacks: []protocol.Signature{chainOf(task("a", "x"), task("b"))}}, time.Now())
	require.NoError(t, err)
	require.Len(t, made.Messages, 1)
	require.Equal(t, []any{"id", "x"}, made.Messages[0].Message.Args)
	require.Len(t, made.Messages[0].Message.Chain, 1)
}

// TestChainOfOneGroup: Celery 5.7 forgets the return value on this way.
func TestChainOfOneGroup(t *testing.T) {
	one := chainOf(groupOf([]protocol.Signature{task("a"), task("b")}))
	made, err := publisher.Success(&protocol.Message{ID: "id", Callbacks: []protocol.Signature{one}}, int64(5), time.Now())
	require.NoError(t, err)
	for _, outgoing := range made.Messages {
		require.Equal(t, []any{int64(5)}, outgoing.Message.Args)
	}
	require.Len(t, made.Messages, 2)
}

func TestErrbackOfAChainIsForTheBodyOfItsChord(t *testing.T) {
	chain := chainOf(task("a"), chordOf(task("body")))
	chain.Options = map[string]any{"link_error": task("e").Value()}
	made, err := publisher.Success(&protocol.Message{ID: "id", Callbacks: []protocol.Signature{chain}}, nil, time.Now())
	require.NoError(t, err)
	first := made.Messages[0].Message
	require.Equal(t, "e", first.Errbacks[0].Task)
	body, err := protocol.DecodeSignature(first.Chain[0].Kwargs["body"])
	require.NoError(t, err)
	require.Equal(t, []any{task("e").Value()}, body.Options["link_error"])
}

func TestRestDescendsIntoChords(t *testing.T) {
	grouped := identified(task("g"), "2")
	grouped.Options["group_id"] = "group"
	m := &protocol.Message{Chain: []protocol.Signature{
		identified(task("z"), "1"), task("no id"), grouped, identified(chordOf(identified(task("body"), "4")), "3"),
	}}
	require.Equal(t, []Step{{ID: "1"}, {ID: "2", GroupID: "group"}, {ID: "3"}, {ID: "4"}}, Rest(m))
	require.Len(t, m.Chain, 4)
}

func TestJoined(t *testing.T) {
	body := identified(task("body"), "1")
	whole := chainOf(identified(task("a"), "2"), identified(task("b"), "3"))
	for name, c := range map[string]struct {
		message protocol.Message
		want    []Step
	}{
		"task":             {protocol.Message{Task: ChordUnlock, Args: []any{"g", body.Value()}}, []Step{{ID: "1"}}},
		"chain":            {protocol.Message{Task: ChordUnlock, Args: []any{"g", whole.Value()}}, []Step{{ID: "3"}, {ID: "2"}}},
		"another task":     {protocol.Message{Task: "a", Args: []any{"g", body.Value()}}, nil},
		"no body":          {protocol.Message{Task: ChordUnlock, Args: []any{"g"}}, nil},
		"no signature":     {protocol.Message{Task: ChordUnlock, Args: []any{"g", "body"}}, nil},
		"args are no list": {protocol.Message{Task: ChordUnlock, Args: "args"}, nil},
	} {
		require.Equal(t, c.want, Joined(&c.message), name)
	}
}

func TestRoutes(t *testing.T) {
	to := func(queue string) map[string]any { return map[string]any{"queue": queue} }
	routes := NewRoutes([][]Route{
		{{"a.*", to("first glob")}, {"a.b.*", to("second glob")}, {"a.b.c", to("name")}, {"c*[!x-z]?", to("class")}},
		{{"a.b.c", to("never")}, {"*[z-a]*", to("never")}, {"*+(a)", to("literal")}, {"*", to("rest")}},
	})
	for name, want := range map[string]string{
		"a.b.c": "name", "a.b.d": "first glob", "cab": "class", "cxb": "rest", "ca": "rest", "p+(a)": "literal", "pp(a)": "rest", "zz": "rest",
	} {
		require.Equal(t, want, routes.route(name, options{})["queue"], name)
	}
	require.Equal(t, options{"queue": "own"}, routes.route("zz", options{"queue": "own"}))
	require.Equal(t, "rest", routes.route("zz", options{"queue": nil})["queue"])
	require.Nil(t, Routes(nil).route("a", options{})["queue"])
}

// FuzzContinuation: whatever a message asks for, its continuation is made or
// refused, and made of the same ids each time.
func FuzzContinuation(f *testing.F) {
	f.Add([]byte(`{"callbacks": [{"task": "a", "args": [1], "options": {"queue": "q"}}], "chain": [{"task": "celery.group", "subtask_type": "group", "kwargs": {"tasks": [{"task": "b"}]}}]}`))
	f.Add([]byte(`{"errbacks": [{"task": "celery.chain", "subtask_type": "chain", "kwargs": {"tasks": [{"task": "b"}, {"task": "c"}]}, "options": {"link": {"task": "d"}}}]}`))
	f.Add([]byte(`{"chain": [{"task": "a", "options": {"stamped_headers": ["x"], "x": 1, "countdown": 1, "expires": "2020-01-01", "chord": {"task": "b"}}}]}`))
	f.Fuzz(func(t *testing.T, embed []byte) {
		body := slices.Concat([]byte(`[[], {}, `), embed, []byte(`]`))
		envelope := &protocol.Envelope{
			Body: body, ContentType: "application/json", ContentEncoding: "utf-8",
			Headers: map[string]any{"task": "t", "id": "id"},
		}
		accept, err := protocol.NewAccept([]string{"json"})
		require.NoError(t, err)
		m, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{Accept: accept, Limits: protocol.DefaultLimits()})
		if err != nil || publisher.Check(m) != nil {
			return
		}
		now := time.Now()
		for range 2 {
			made, err := publisher.Success(m, "value", now)
			require.NoError(t, err)
			again, err := publisher.Success(m, "value", now)
			require.NoError(t, err)
			require.Equal(t, made, again)
			_, err = publisher.Failure(m, now)
			require.NoError(t, err)
		}
		Rest(m)
	})
}
