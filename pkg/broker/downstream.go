package broker

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxGetItems is what a Get without MaxItems asks for, as with the original.
	maxGetItems = 200_000
	// maxStreamGets bounds the unanswered Gets of one stream, maxStreamAnswers
	// the other answers that wait to be sent.
	maxStreamGets    = 1024
	maxStreamAnswers = 256
)

// downstream is one QueuesDownstream stream. Its handler reads requests and
// settles at once, in order; each Get has a goroutine that waits; answers that
// prove a settlement are sent, in order, when it is durable.
type downstream struct {
	queues *queues
	stream pb.Kubemq_QueuesDownstreamServer

	sending sync.Mutex // around stream.Send
	gets    chan struct{}
	answers chan answer
	workers sync.WaitGroup

	last    *commit // latest settlement, used by the handler only
	goodbye bool    // the client ended its side, used by the handler only

	mu           sync.Mutex
	ids          transactionIDs
	transactions map[string]*transaction
}

// answer is a response that must not be sent before a commit is durable.
type answer struct {
	response *pb.QueuesDownstreamResponse
	after    *commit // may be nil
}

// QueuesDownstream serves one consumer's stream until the client ends it.
func (s *service) QueuesDownstream(stream pb.Kubemq_QueuesDownstreamServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	d := &downstream{
		queues:       s.queues,
		stream:       stream,
		gets:         make(chan struct{}, maxStreamGets),
		answers:      make(chan answer, maxStreamAnswers),
		ids:          newTransactionIDs(),
		transactions: make(map[string]*transaction),
	}
	d.workers.Go(func() { d.sendAnswers(ctx) })
	err := d.read(ctx)
	cancel()
	d.workers.Wait()
	d.giveBack()
	return err
}

// read handles requests until the client is gone. A client that only ends its
// side of the stream may still wait for answers.
func (d *downstream) read(ctx context.Context) error {
	for {
		request, err := d.stream.Recv()
		if errors.Is(err, io.EOF) {
			d.goodbye = true
			<-ctx.Done()
			return errStreamEnded
		}
		if err != nil {
			return errStreamEnded
		}
		d.handle(ctx, request)
	}
}

// errStreamEnded is how streams end, never with status OK: KubeMQ's Python client
// would open a new one in a tight loop.
var errStreamEnded = status.Error(codes.Unavailable, "broker: stream ended")

func (d *downstream) handle(ctx context.Context, request *pb.QueuesDownstreamRequest) {
	switch request.RequestTypeData {
	case pb.QueuesDownstreamRequestType_Get:
		d.get(ctx, request)
	case pb.QueuesDownstreamRequestType_ActiveOffsets:
		d.activeOffsets(ctx, request)
	case pb.QueuesDownstreamRequestType_CloseByClient:
		d.closeByClient(ctx, request)
	default:
		d.settle(ctx, request)
	}
}

// settle handles the requests that answer only when they fail.
func (d *downstream) settle(ctx context.Context, request *pb.QueuesDownstreamRequest) {
	kind := settlementOf(request.RequestTypeData)
	response := respondTo(request)
	if kind == nil {
		response.RequestTypeData = pb.QueuesDownstreamRequestType_PollRequestTypeUnknown
		d.answer(ctx, response, errUnknownRequest)
		return
	}
	if err := d.settleTransaction(ctx, kind, request); err != nil {
		d.answer(ctx, response, err)
	}
}

func (d *downstream) settleTransaction(ctx context.Context, kind *settlement, request *pb.QueuesDownstreamRequest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.find(request.RefTransactionId, kind.closed)
	if err != nil {
		return err
	}
	done, err := kind.settle(d.queues, t, request)
	if done != nil {
		d.last = done
	}
	t.member.settled(ctx, len(t.open), request.RequestTypeData, done)
	if len(t.open) == 0 {
		delete(d.transactions, request.RefTransactionId)
	}
	return err
}

// find returns an open transaction, or the error for a closed or foreign one.
func (d *downstream) find(id string, closed error) (*transaction, error) {
	if t := d.transactions[id]; t != nil {
		return t, nil
	}
	if d.ids.issued(id) {
		return nil, closed
	}
	return nil, errNoTransaction
}

// activeOffsets lists what a transaction has open. Its answer comes after all
// earlier settlements of the stream are durable: clients use it to prove them.
func (d *downstream) activeOffsets(ctx context.Context, request *pb.QueuesDownstreamRequest) {
	response := respondTo(request)
	d.mu.Lock()
	t, err := d.find(request.RefTransactionId, errOffsetsClosed)
	if t != nil {
		response.ActiveOffsets = t.sequences()
	}
	d.mu.Unlock()
	d.answer(ctx, response, err)
}

// closeByClient releases what a transaction has open. It has no answer, also
// when the transaction is closed already.
func (d *downstream) closeByClient(ctx context.Context, request *pb.QueuesDownstreamRequest) {
	d.mu.Lock()
	t, err := d.find(request.RefTransactionId, nil)
	if t != nil {
		d.queues.release(t.member.leave(t.take(t.sequences())))
		delete(d.transactions, request.RefTransactionId)
	}
	d.mu.Unlock()
	if err != nil {
		d.answer(ctx, respondTo(request), err)
	}
}

func respondTo(request *pb.QueuesDownstreamRequest) *pb.QueuesDownstreamResponse {
	return &pb.QueuesDownstreamResponse{
		TransactionId:   request.RefTransactionId,
		RefRequestId:    request.RequestID,
		RequestTypeData: request.RequestTypeData,
	}
}

// answer queues a response to be sent behind what the handler did before.
func (d *downstream) answer(ctx context.Context, response *pb.QueuesDownstreamResponse, err error) {
	if err != nil {
		response.IsError, response.Error = true, err.Error()
	}
	select {
	case d.answers <- answer{response, d.last}:
	case <-ctx.Done():
	}
}

func (d *downstream) sendAnswers(ctx context.Context) {
	for {
		select {
		case a := <-d.answers:
			if a.after.wait(ctx) == nil {
				d.send(a.response)
			}
		case <-ctx.Done():
			return
		}
	}
}

// send hands a response to the transport. If that fails the stream is over,
// which its handler learns from reading.
func (d *downstream) send(response *pb.QueuesDownstreamResponse) {
	d.sending.Lock()
	defer d.sending.Unlock()
	_ = d.stream.Send(response)
}

// giveBack hands back what the stream has open, at once, so that it comes out in
// its old order. A client that did not say goodbye, by half-closing the stream, is
// taken for crashed.
func (d *downstream) giveBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	open := make([]*delivery, 0, len(d.transactions))
	for _, t := range d.transactions {
		open = append(open, t.member.leave(t.take(t.sequences()))...)
	}
	if d.queues.config.CountCrashes && !d.goodbye {
		slices.SortFunc(open, func(a, b *delivery) int { return cmp.Compare(a.seq, b.seq) })
		d.queues.abandon(open)
		return
	}
	d.queues.release(open)
}
