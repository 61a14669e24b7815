package canvas

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// flow is one run of a real Celery 5.6 worker: the messages that were published,
// in their order, and the results that were stored.
type flow struct {
	messages []*protocol.Message
	metas    map[string]protocol.Meta
	raw      string
}

func readFlow(t *testing.T, path string) flow {
	t.Helper()
	vector := readJSON(t, path)
	f := flow{metas: map[string]protocol.Meta{}}
	for _, v := range list(vector["messages_pushed"]) {
		raw := mapping(v)["redis_value"].(string)
		envelope, err := protocol.DecodeEnvelope([]byte(raw), protocol.DefaultLimits())
		require.NoError(t, err)
		f.messages = append(f.messages, decode(t, envelope))
		f.raw += string(envelope.Body)
	}
	for _, v := range list(vector["result_metas"]) {
		meta, err := protocol.MetaOf(mapping(v)["decoded"])
		require.NoError(t, err)
		f.metas[meta.TaskID] = meta
	}
	return f
}

// after are the messages that the worker published for a task.
func (f flow) after(id string) []*protocol.Message {
	var found []*protocol.Message
	for _, m := range f.messages {
		// A replacement has the id of the task itself, a chord's body is published by
		// the join.
		if m.ParentID == id && m.ID != id && !strings.Contains(m.Task, "tsum") && !strings.Contains(m.Task, "echo") {
			found = append(found, m)
		}
	}
	return found
}

// TestFlows runs what Celery 5.6 ran: after each task the same is published and
// stored among its children.
func TestFlows(t *testing.T) {
	paths, err := filepath.Glob("testdata/vectors/flow_*.json")
	require.NoError(t, err)
	require.Len(t, paths, 11)
	compared := 0
	for _, path := range paths {
		f := readFlow(t, strings.TrimPrefix(path, "testdata/"))
		publisher := &Publisher{DefaultQueue: "celery"}
		for i, m := range f.messages {
			if slices.ContainsFunc(f.messages[i+1:], func(later *protocol.Message) bool { return later.ID == m.ID }) {
				continue // it was replaced
			}
			made, err := publisher.Success(m, f.metas[m.ID].Result, time.Now())
			if f.metas[m.ID].Status == protocol.StateFailure {
				made, err = publisher.Failure(m, time.Now())
				made.Children = nil
			}
			if len(m.Chain) > 0 && m.Chain[len(m.Chain)-1].SubtaskType == typeChord {
				var unsupported *UnsupportedError
				require.ErrorAs(t, err, &unsupported, path)
				continue
			}
			require.NoError(t, err, path)
			want, got := f.after(m.ID), make([]*protocol.Message, 0, len(made.Messages))
			for _, outgoing := range made.Messages {
				got = append(got, overTheWire(t, outgoing.Message))
			}
			for i := range want { // neither is ours to give, see docs/compatibility.md
				want[i].IgnoreResult = nil
				if len(got) > i && got[i].ReplyTo == "" {
					want[i].ReplyTo = ""
				}
			}
			require.Equal(t, canonical(t, want, children(f, m), f.raw), canonical(t, got, noNil(made.Children), f.raw), "%s %s", path, m.ID)
			compared += len(got)
		}
	}
	require.Equal(t, 12, compared)
}

func children(f flow, m *protocol.Message) []any { return noNil(f.metas[m.ID].Children) }

func noNil(items []any) []any { return append([]any{}, items...) }

// TestRest marks what Celery marked after a step had failed.
func TestRest(t *testing.T) {
	f := readFlow(t, "vectors/flow_chain_fail.json")
	failed := f.messages[0]
	steps := Rest(failed)
	require.Len(t, steps, 2)
	require.Len(t, f.metas, 1+len(steps))
	for _, step := range steps {
		require.Equal(t, f.metas[failed.ID].Result, f.metas[step.ID].Result)
	}
}

// produced are the messages of a real producer.
func produced(t *testing.T, name string) []*protocol.Message {
	t.Helper()
	sent := list(readJSON(t, "vectors/"+name+".json")["messages"])
	messages := make([]*protocol.Message, 0, len(sent))
	for _, v := range sent {
		envelope, err := protocol.DecodeEnvelope([]byte(mapping(v)["redis_value"].(string)), protocol.DefaultLimits())
		require.NoError(t, err)
		messages = append(messages, decode(t, envelope))
	}
	return messages
}

// walk runs a task and what follows it, each adding its two arguments, to the end
// of the chain.
func walk(t *testing.T, m *protocol.Message) []*protocol.Message {
	t.Helper()
	way := []*protocol.Message{m}
	for {
		args := list(m.Args)
		made, err := publisher.Success(m, args[0].(int64)+args[1].(int64), time.Now())
		require.NoError(t, err)
		if len(made.Messages) == 0 {
			return way
		}
		require.Len(t, made.Messages, 1)
		next := overTheWire(t, made.Messages[0].Message)
		require.Equal(t, [2]string{m.ID, way[0].ID}, [2]string{next.ParentID, next.RootID})
		m = next
		way = append(way, m)
	}
}

func TestChainsOfRealProducers(t *testing.T) {
	old := produced(t, "msg_proto1_chain")[0] // the steps are links of links
	require.Equal(t, protocol.Protocol1, old.Protocol)
	require.Empty(t, old.Chain)
	way := walk(t, old)
	require.Len(t, way, 3)
	require.Equal(t, []any{int64(6), int64(4)}, way[2].Args)

	way = walk(t, produced(t, "msg_chain4")[0])
	require.Len(t, way, 4)
	require.Equal(t, []any{int64(4), int64(4)}, way[2].Args, "an immutable step")
	require.Equal(t, []any{int64(8), int64(5)}, way[3].Args)
	require.Equal(t, "q2", way[3].Queue)
	require.Equal(t, 3, way[3].Priority)
	for _, m := range way {
		require.Equal(t, "proj.on_err", m.Errbacks[0].Task)
	}

	way = walk(t, produced(t, "msg_stamps_chain")[0])
	require.Equal(t, []string{"batch"}, way[1].StampedHeaders)
	require.Equal(t, map[string]any{"batch": "b-7"}, way[1].Stamps)

	for i, first := range produced(t, "msg_group_chain") {
		way = walk(t, first)
		require.Empty(t, way[0].GroupID, "only the last step stands in the group")
		require.NotEmpty(t, way[1].GroupID)
		require.Equal(t, i, *way[1].GroupIndex)
	}
}
