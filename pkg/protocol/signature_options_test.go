package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDecodeCallOptions(t *testing.T) {
	eta := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	linked := Signature{Task: "linked", Args: []any{}, Kwargs: map[string]any{}, Options: map[string]any{}}
	five, yes, less := 5, true, -1500*time.Millisecond
	got, err := DecodeCallOptions(map[string]any{
		"task_id": "id", "root_id": "root", "parent_id": "parent", "group_id": "group", "group_index": int64(5),
		"retries": int64(1), "replaced_task_nesting": int64(2), "eta": "2030-01-02T03:04:05Z", "countdown": int64(3),
		"expires": -1.5, "time_limit": int64(10), "soft_time_limit": 2.5,
		"link": linked.Value(), "link_error": []any{linked.Value()}, "chain": []any{}, "chord": linked.Value(),
		"queue": "q", "exchange": "x", "routing_key": "k", "priority": int64(5), "reply_to": "r", "shadow": "s",
		"ignore_result": true, "argsrepr": "(…)", "kwargsrepr": "{…}", "origin": "o", "headers": map[string]any{"h": nil},
		"serializer": "yaml", "compression": "gzip", "delivery_mode": "transient",
		"stamped_headers": []any{"stamp"}, "stamp": "v", "add_to_parent": false,
		"retry_policy": map[string]any{}, "unknown": int64(1), "null": nil,
	})
	require.NoError(t, err)
	require.Equal(t, CallOptions{
		TaskID: "id", RootID: "root", ParentID: "parent", GroupID: "group", GroupIndex: &five,
		Retries: 1, ReplacedTaskNesting: 2, ETA: eta, Countdown: 3 * time.Second,
		ExpiresIn: &less, TimeLimit: 10 * time.Second, SoftTimeLimit: 2500 * time.Millisecond,
		Link: []Signature{linked}, LinkError: []Signature{linked}, Chain: []Signature{}, Chord: &linked,
		Queue: "q", Exchange: "x", RoutingKey: "k", Priority: &five, ReplyTo: "r", Shadow: "s",
		IgnoreResult: &yes, ArgsRepr: "(…)", KwargsRepr: "{…}", Origin: "o", Headers: map[string]any{"h": nil},
		Serializer: "yaml", Compression: "gzip", Transient: true,
		StampedHeaders: []string{"stamp"}, Stamps: map[string]any{"stamp": "v"},
		Properties: map[string]any{"unknown": int64(1)},
	}, got)
}

func TestMissingCallOptions(t *testing.T) {
	got, err := DecodeCallOptions(map[string]any{"eta": "", "expires": NaiveDateTime{time.Unix(0, 0).UTC()}, "countdown": nil})
	require.NoError(t, err)
	require.Equal(t, CallOptions{Expires: time.Unix(0, 0).UTC(), AddToParent: true}, got)
}

func TestBadCallOptions(t *testing.T) {
	for name, value := range map[string]any{
		"task_id": int64(1), "queue": true, "group_index": "1", "retries": int64(-1), "eta": int64(5), "countdown": "soon",
		"expires": "soon", "time_limit": int64(-1), "link": "task", "link_error": []any{"task"}, "chord": map[string]any{},
		"priority": 0.5, "ignore_result": "no", "headers": []any{}, "stamped_headers": []any{"missing"}, "add_to_parent": "no",
	} {
		_, err := DecodeCallOptions(map[string]any{name: value})
		var invalid *InvalidTaskError
		require.ErrorAs(t, err, &invalid, name)
		if name != "stamped_headers" {
			require.ErrorContains(t, err, "invalid option of a signature: "+name)
		}
	}
}
