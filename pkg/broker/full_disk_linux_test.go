package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// fillLimit bounds filling a disk and the end of its broker.
const fillLimit = time.Minute

// smallDisk is a directory that takes only so many bytes.
type smallDisk struct {
	dir   string
	what  string // how it is made small
	error string // what the system says when it is full
	env   string // for the child
	grow  func()
}

// newSmallDisk mounts a file system in memory or, where that is not allowed, bounds
// the size of the files.
func newSmallDisk(t *testing.T, bytes int) *smallDisk {
	t.Helper()
	dir := t.TempDir()
	options := func(bytes int) string { return fmt.Sprint("size=", bytes) }
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options(bytes))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		disk := &smallDisk{dir: dir, what: "RLIMIT_FSIZE", error: syscall.EFBIG.Error(), env: fmt.Sprint(fileLimit, "=", bytes/8)}
		disk.grow = func() { disk.env = "" }
		return disk
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return &smallDisk{dir: dir, what: "tmpfs", error: syscall.ENOSPC.Error(), grow: func() {
		require.NoError(t, syscall.Mount("", dir, "tmpfs", syscall.MS_REMOUNT, options(8*bytes)))
	}}
}

// start starts a broker on the disk; ready is false if it could not.
func (d *smallDisk) start(t *testing.T) (child *childBroker, ready bool, line string) {
	t.Helper()
	child = launchChild(t, d.dir, d.env)
	line = nextLine(t, child)
	child.address, ready = strings.CutPrefix(strings.TrimSpace(line), "listening ")
	return child, ready, line
}

// TestAFullDiskLosesNothing fills the disk under a broker, with messages of different
// sizes so that it becomes full in the log, in a table and in between. The broker
// must end with an error that names the file, also when it is started again; with space
// again, it must have everything that it answered.
func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ message, disk int }{{300, 20 << 20}, {5_000, 34 << 20}, {200_000, 48 << 20}} {
		t.Run(strconv.Itoa(one.message), func(t *testing.T) {
			t.Parallel()
			disk := newSmallDisk(t, one.disk)
			t.Log("made small by", disk.what)
			l := newLedger()
			child, ready, line := disk.start(t)
			require.True(t, ready, line)
			fill(t, l, child.address, one.message)
			disk.requireFull(t, child)
			// Started again, it may run until something is written, or not at all.
			if child, ready, line := disk.start(t); ready {
				fill(t, l, child.address, one.message)
				disk.requireFull(t, child)
			} else {
				require.Contains(t, line, disk.error)
				require.Error(t, child.command.Wait())
			}

			disk.grow()
			child, ready, line = disk.start(t)
			require.True(t, ready, line)
			owed := drain(t, l, child.address, 200*time.Millisecond)
			child.stop(t)
			t.Log(l.summary(owed))
			require.Positive(t, owed)
			require.Empty(t, l.faults)
			require.Zero(t, l.owed(), "lost messages")
		})
	}
}

// nextLine is what the broker prints next. One that hangs is killed.
func nextLine(t *testing.T, child *childBroker) string {
	t.Helper()
	patience := time.AfterFunc(fillLimit, func() { _ = child.command.Process.Kill() })
	defer patience.Stop()
	line, err := child.lines.ReadString('\n')
	require.NoError(t, err, "the broker hangs")
	return line
}

// requireFull requires that the broker ended by itself and said why.
func (d *smallDisk) requireFull(t *testing.T, child *childBroker) {
	t.Helper()
	line := nextLine(t, child)
	t.Log(strings.TrimSpace(line))
	require.True(t, strings.HasPrefix(line, "ended broker: "), line)
	require.Contains(t, line, d.error)
	require.Contains(t, line, d.dir)
	require.Error(t, child.command.Wait())
	_ = child.stdin.Close()
}

// fill sends until the broker is gone, and acks one message of ten.
func fill(t *testing.T, l *ledger, address string, size int) {
	t.Helper()
	conn := dialChild(t, address)
	defer func() { require.NoError(t, conn.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), fillLimit)
	defer cancel()
	client := pb.NewKubemqClient(conn)
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			for fillSome(ctx, l, client, size) == nil {
				continue
			}
			return ctx.Err()
		})
	}
	require.NoError(t, group.Wait(), "the broker goes on, or hangs")
}

// fillSome sends a batch and acks a part of what is there, confirmed by a barrier.
func fillSome(ctx context.Context, l *ledger, client pb.KubemqClient, size int) error {
	request := &pb.QueueMessagesBatchRequest{}
	for range max(1, 500_000/size) {
		message := testMessage("q", fmt.Sprintf("%s-%s", rand.Text(), rand.Text()))
		message.Metadata = randomText(size)
		l.sent(string(message.Body), 0)
		request.Messages = append(request.Messages, message)
	}
	response, err := client.SendQueueMessagesBatch(ctx, request)
	if err != nil {
		return err
	}
	for i, result := range response.Results {
		l.answer(string(request.Messages[i].Body), result)
	}
	return ackSome(ctx, l, client, max(1, len(request.Messages)/10))
}

func ackSome(ctx context.Context, l *ledger, client pb.KubemqClient, most int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.QueuesDownstream(ctx)
	if err != nil {
		return err
	}
	got, err := exchange(stream, &pb.QueuesDownstreamRequest{
		ClientID: "c", RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: "q", MaxItems: int32(most),
	})
	if err != nil {
		return err
	}
	if got.IsError {
		return errors.New(got.Error)
	}
	var entries []*entry
	for _, m := range got.Messages {
		entries = append(entries, l.delivered(m))
	}
	mark := func(set func(*entry)) {
		l.update(func() {
			for _, e := range entries {
				set(e)
			}
		})
	}
	mark(func(e *entry) { e.ackSent = true })
	if err := stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: typeAckAll, RefTransactionId: got.TransactionId}); err != nil {
		return err
	}
	if _, err := exchange(stream, &pb.QueuesDownstreamRequest{RequestTypeData: typeActiveOffsets, RefTransactionId: got.TransactionId}); err != nil {
		return err
	}
	mark(func(e *entry) { e.acked = true })
	return nil
}

// randomText can't be compressed.
func randomText(size int) string {
	text := make([]byte, 0, size+32)
	for len(text) < size {
		text = append(text, rand.Text()...)
	}
	return string(text)
}
