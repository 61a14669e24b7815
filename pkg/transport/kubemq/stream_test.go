package kubemq

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// endless is a stream that takes nothing, and whose reader waits: what gRPC makes
// of a stream that it has opened again after a cut.
type endless struct {
	pb.Kubemq_QueuesDownstreamClient
	life context.Context
}

func (endless) Send(*pb.QueuesDownstreamRequest) error { return io.EOF }

func (e endless) Recv() (*pb.QueuesDownstreamResponse, error) {
	<-e.life.Done()
	return nil, status.FromContextError(e.life.Err()).Err()
}

// TestAStreamThatTakesNothingEnds: else the Get on it is waited for without end, and
// its queue is not consumed any more.
func TestAStreamThatTakesNothingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		life, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		s := newStream(&Client{}, endless{life: life}, cancel)
		go s.read(life)
		_, err := s.get("q", 1, minGetWait)
		require.ErrorIs(t, err, io.EOF)
		require.True(t, Temporary(err), "another stream may do better")
		require.True(t, s.broken())
	})
}

// refusing is a stream that the server has ended with a reason.
type refusing struct {
	pb.Kubemq_QueuesDownstreamClient
}

func (refusing) Send(*pb.QueuesDownstreamRequest) error { return io.EOF }

func (refusing) Recv() (*pb.QueuesDownstreamResponse, error) {
	return nil, status.Error(codes.Unauthenticated, "invalid token")
}

func TestARefusedSendTellsTheServersReason(t *testing.T) {
	t.Parallel()
	life, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s := newStream(&Client{}, refusing{}, cancel)
	go s.read(life)
	_, err := s.get("q", 1, minGetWait)
	require.ErrorContains(t, err, "invalid token")
}
