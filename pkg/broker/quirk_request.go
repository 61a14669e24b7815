package broker

import (
	"context"
	"errors"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

var (
	errRequestNoTimeout = errors.New("Error 109: invalid set timeout value, cannot be 0 or negative")
	errRequestTimeout   = errors.New("Error 301: timeout for request message")
)

// unanswered is what becomes of a request that nobody listens to.
func unanswered(ctx context.Context, request *pb.Request) error {
	if request.Timeout <= 0 {
		return internal(errRequestNoTimeout)
	}
	timer := time.NewTimer(time.Duration(request.Timeout) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return internal(errRequestTimeout)
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}
