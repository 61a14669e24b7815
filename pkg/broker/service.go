package broker

import (
	"context"
	"errors"
	"os"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// service is the gRPC face of the broker. Each call is in the file of its
// subject; this one has those that belong to none.
type service struct {
	queues   *queues
	events   *events
	requests *requests
	cache    *requestCache
	version  string
	started  time.Time
}

// Ping tells who answers. It needs no token.
func (s *service) Ping(context.Context, *pb.Empty) (*pb.PingResult, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &pb.PingResult{
		Host:                host,
		Version:             s.version,
		ServerStartTime:     s.started.Unix(),
		ServerUpTimeSeconds: int64(time.Since(s.started).Seconds()),
	}, nil
}

// unavailable is the status of a call whose outcome is unknown; nil stays nil.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, err.Error())
}
