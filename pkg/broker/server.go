package broker

import (
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/lovage-project/lovage/pkg/internal/kubemqwire"
)

const (
	// minPing is the shortest interval at which clients may ping, also without
	// streams. KubeMQ's Python client and kubemq-celery ping every 30 s; the
	// original ends such connections.
	minPing = 5 * time.Second
	// deadPeer is how long a client may be silent before the broker asks whether
	// it lives, and again how long it may take to answer. What a vanished host
	// held goes back to its queues after both.
	deadPeer = 20 * time.Second
)

// newServer builds the gRPC server for a service.
func newServer(config Config, s *service) *grpc.Server {
	auth := access{token: config.AuthToken}
	streams := make(streamLimit, config.MaxStreams)
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(kubemqwire.Codec{}),
		grpc.MaxRecvMsgSize(config.MaxMessageBytes),
		grpc.MaxSendMsgSize(config.MaxMessageBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: deadPeer, Timeout: deadPeer}),
		grpc.InTapHandle(auth.tap),
		grpc.UnaryInterceptor(auth.unary),
		grpc.ChainStreamInterceptor(auth.stream, streams.limit),
		// Stop returns when no handler is left, so that the store can be closed.
		grpc.WaitForHandlers(true),
	}
	if config.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config.TLS)))
	}
	server := grpc.NewServer(options...)
	pb.RegisterKubemqServer(server, s)
	return server
}

// streamLimit bounds the open streams: its capacity.
type streamLimit chan struct{}

func (l streamLimit) limit(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	select {
	case l <- struct{}{}:
	default:
		err := limitError{what: "open streams", limit: cap(l)}
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	defer func() { <-l }()
	return handler(server, stream)
}
