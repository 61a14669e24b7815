package broker

import (
	"encoding/json"
	"net/http"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

// TestABadQueueNameIsRefusedOnEveryPath: nothing reaches the index or the store under a
// name that a client of the original could not use.
func TestABadQueueNameIsRefusedOnEveryPath(t *testing.T) {
	w := startWeb(t, Config{})
	w.sendBodies("q", "1")
	stream := w.consumer()
	held := stream.get("q", 1)
	upstream, err := w.QueuesUpstream(t.Context())
	require.NoError(t, err)
	receive := func(name string, peek bool) string {
		response, err := w.ReceiveQueueMessages(t.Context(), &pb.ReceiveQueueMessagesRequest{
			ClientID: "c", Channel: name, MaxNumberOfMessages: 1, WaitTimeSeconds: 1, IsPeak: peek,
		})
		require.NoError(t, err)
		return response.Error
	}
	paths := map[string]func(name string) string{
		"send": func(name string) string {
			result, err := w.SendQueueMessage(t.Context(), testMessage(name, "x"))
			require.NoError(t, err)
			return result.Error
		},
		"batch": func(name string) string {
			response, err := w.SendQueueMessagesBatch(t.Context(),
				&pb.QueueMessagesBatchRequest{Messages: []*pb.QueueMessage{testMessage(name, "x")}})
			require.NoError(t, err)
			return response.Results[0].Error
		},
		"upstream": func(name string) string {
			require.NoError(t, upstream.Send(&pb.QueuesUpstreamRequest{Messages: []*pb.QueueMessage{testMessage(name, "x")}}))
			response, err := upstream.Recv()
			require.NoError(t, err)
			return response.Results[0].Error
		},
		"dead letters": func(name string) string {
			message := testMessage("q", "x")
			message.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 1, MaxReceiveQueue: name}
			result, err := w.SendQueueMessage(t.Context(), message)
			require.NoError(t, err)
			return result.Error
		},
		"get": func(name string) string {
			stream.request(&pb.QueuesDownstreamRequest{
				RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: name, MaxItems: 1,
			})
			return stream.receive().Error
		},
		"requeue": func(name string) string {
			stream.request(&pb.QueuesDownstreamRequest{
				RequestTypeData: typeReQueueAll, RefTransactionId: held.TransactionId, ReQueueChannel: name,
			})
			return stream.receive().Error
		},
		"pull": func(name string) string { return receive(name, false) },
		"peek": func(name string) string { return receive(name, true) },
		"ack all": func(name string) string {
			response, err := w.AckAllQueueMessages(t.Context(), &pb.AckAllQueueMessagesRequest{ClientID: "c", Channel: name})
			require.NoError(t, err)
			return response.Error
		},
		"older stream": func(name string) string {
			older, err := w.StreamQueueMessage(t.Context())
			require.NoError(t, err)
			require.NoError(t, older.Send(&pb.StreamQueueMessagesRequest{ClientID: "c", StreamRequestTypeData: typeReceive, Channel: name}))
			response, err := older.Recv()
			require.NoError(t, err)
			return response.Error
		},
		"create": func(name string) string { return w.manage("create-channel", kindQueues, name, "").Error },
		"delete": func(name string) string { return w.manage("delete-channel", kindQueues, name, "").Error },
		"http": func(name string) string {
			body, err := json.Marshal(map[string]any{"ClientID": "c", "Channel": name, "Body": []byte("x")})
			require.NoError(t, err)
			_, text := w.ask(http.MethodPost, "/queue/send", string(body))
			var answer struct {
				Message string `json:"message"`
			}
			require.NoError(t, json.Unmarshal([]byte(text), &answer))
			return answer.Message
		},
	}
	for path, refusal := range paths {
		t.Run(path, func(t *testing.T) {
			for _, name := range []string{"a b", "a\tb", "a\r", "\n", "a\x00b", "\x7f", "a.", ".a", "a..b", "a/b", "a:b", "*", "a.>", "é"} {
				require.Contains(t, refusal(name), errQueueName.Error(), "%q", name)
			}
		})
	}
	require.Len(t, w.list(kindQueues, ""), 1)
}
