package broker

import (
	"encoding/json"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// listed is a channel as clients read it.
type listed struct {
	Name         string           `json:"name"`
	Type         string           `json:"type"`
	LastActivity int64            `json:"lastActivity"`
	IsActive     bool             `json:"isActive"`
	Incoming     map[string]int64 `json:"incoming"`
	Outgoing     map[string]int64 `json:"outgoing"`
}

// manage sends a command to the internal channel as KubeMQ's clients do.
func (c *client) manage(command, kind, channel, search string) *pb.Response {
	c.t.Helper()
	response, err := c.SendRequest(c.t.Context(), &pb.Request{
		RequestID: "r", RequestTypeData: pb.Request_Query, ClientID: "test", Channel: internalChannel,
		Metadata: command, Timeout: 10_000,
		Tags: map[string]string{"channel_type": kind, "channel": channel, "channel_search": search, "client_id": "test"},
	})
	require.NoError(c.t, err)
	require.Equal(c.t, "r", response.RequestID)
	require.Equal(c.t, response.Executed, response.Error == "", "the two clients judge by different fields")
	return response
}

func (c *client) list(kind, search string) []listed {
	c.t.Helper()
	response := c.manage("list-channels", kind, "", search)
	require.True(c.t, response.Executed, response.Error)
	var channels []listed
	require.NoError(c.t, json.Unmarshal(response.Body, &channels))
	return channels
}

func TestAnEmptyListIsAnArray(t *testing.T) {
	c := startBroker(t, Config{})
	for _, kind := range []string{kindQueues, kindEvents, kindEventsStore, kindCommands, kindQueries} {
		require.Equal(t, "[]", string(c.manage("list-channels", kind, "", "").Body))
	}
}

func TestListedQueuesHaveAllNumbers(t *testing.T) {
	c := startBroker(t, Config{})
	c.sendBodies("jobs", "1", "2")
	c.send(delayed("jobs", "late", 3600, 0))
	c.sendBodies("other", "1")
	consumer := c.consumer()
	consumer.get("jobs", 1)
	channels := c.list(kindQueues, "job")
	require.Len(t, channels, 1)
	got := channels[0]
	require.WithinDuration(t, time.Now(), time.Unix(got.LastActivity, 0), waitLimit)
	require.Positive(t, got.Incoming["volume"])
	require.Positive(t, got.Outgoing["volume"])
	got.LastActivity, got.Incoming["volume"], got.Outgoing["volume"] = 0, 0, 0
	require.Equal(t, listed{
		Name: "jobs", Type: "queues", IsActive: true,
		Incoming: map[string]int64{"messages": 2, "volume": 0, "waiting": 2, "expired": 0, "delayed": 1},
		Outgoing: map[string]int64{"messages": 1, "volume": 0, "waiting": 0, "expired": 0, "delayed": 0},
	}, got)
	require.Len(t, c.list(kindQueues, ""), 2)
}

func TestChannelsAreCreatedAndDeleted(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		numbers := map[string]map[string]int64{
			kindQueues:      {"messages": 0, "volume": 0, "waiting": 0, "expired": 0, "delayed": 0},
			kindEvents:      {"messages": 0, "volume": 0},
			kindEventsStore: {"messages": 0, "volume": 0},
			kindCommands:    {"messages": 0, "volume": 0, "responses": 0},
			kindQueries:     {"messages": 0, "volume": 0, "responses": 0},
		}
		for kind, want := range numbers {
			for range 2 { // creating again is no error
				require.True(t, c.manage("create-channel", kind, "ch", "").Executed)
			}
			channels := c.list(kind, "")
			require.Len(t, channels, 1, kind)
			require.Equal(t, "ch", channels[0].Name)
			require.Equal(t, kind, channels[0].Type)
			require.Equal(t, want, channels[0].Incoming)
			require.Equal(t, want, channels[0].Outgoing)
		}
		for kind := range numbers {
			for range 2 { // nor is deleting again
				require.True(t, c.manage("delete-channel", kind, "ch", "").Executed)
			}
			require.Empty(t, c.list(kind, ""))
		}
	})
}

func TestADeletedQueueIsEmpty(t *testing.T) {
	eachStore(t, func(c *client) {
		t := c.t
		c.sendBodies("q", "1", "2")
		consumer := c.consumer()
		held := consumer.get("q", 1)
		require.True(t, c.manage("delete-channel", kindQueues, "q", "").Executed)
		require.Empty(t, c.list(kindQueues, ""))
		consumer.settle(typeNAckAll, held.TransactionId)
		_, closed := consumer.barrier(held.TransactionId)
		require.True(t, closed)
		require.Empty(t, consumer.get("q", 10).Messages)
	})
}

func TestChannelCommandsThatFail(t *testing.T) {
	c := startBroker(t, Config{})
	tests := []struct{ command, kind, channel, want string }{
		{"create-channel", "queues", "a b", errQueueName.Error()},
		{"delete-channel", "queues", "", errQueueName.Error()},
		{"create-channel", "events", "a.*", errChannelWild.Error()},
		{"create-channel", "topics", "a", `broker: unknown channel type "topics"`},
		{"explode", "queues", "a", `broker: unknown channel command "explode"`},
	}
	for _, test := range tests {
		response := c.manage(test.command, test.kind, test.channel, "")
		require.False(t, response.Executed)
		require.Equal(t, test.want, response.Error)
	}
}

func TestCallsThatAreNotSupportedSaySo(t *testing.T) {
	c := startBroker(t, Config{})
	_, err := c.SendRequest(t.Context(), &pb.Request{Channel: internalChannel})
	require.Equal(t, codes.Internal, status.Code(err))
	require.ErrorContains(t, err, errClientID.Error())
	_, err = c.SendEvent(t.Context(), &pb.Event{ClientID: "c", Channel: "x", Metadata: "m", Store: true})
	require.Equal(t, codes.Unimplemented, status.Code(err))
}
