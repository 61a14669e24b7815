package broker

import (
	"encoding/json"
	"fmt"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestListingFitsDefaultClients: kubemq-celery looks for "celery" with gRPC's
// default limit of 4 MiB, and every result queue matches that.
func TestListingFitsDefaultClients(t *testing.T) {
	c := startBroker(t, Config{})
	c.send(testMessage("celery", "{}"))
	for group := range 16 {
		messages := make([]*pb.QueueMessage, 0, 1000)
		for i := range 1000 {
			messages = append(messages, testMessage(fmt.Sprintf("celery-result-%08x-1111-4111-8111-%012x", i, group), "{}"))
		}
		c.send(messages...)
	}
	connection, err := grpc.NewClient(c.broker.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer connection.Close()
	answer, err := pb.NewKubemqClient(connection).SendRequest(t.Context(), &pb.Request{
		RequestID: "r", RequestTypeData: pb.Request_Query, ClientID: "test", Channel: internalChannel,
		Metadata: "list-channels", Timeout: 10_000,
		Tags: map[string]string{"channel_type": "queues", "channel_search": "celery"},
	})
	require.NoError(t, err)
	var list []listedChannel
	require.NoError(t, json.Unmarshal(answer.Body, &list))
	require.Len(t, list, maxListed)
	require.Equal(t, "celery", list[0].Name, "the one that was asked for comes first")
}
