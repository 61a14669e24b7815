package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// memoryVariable sets how many messages TestABacklogFitsInMemory queues; "make
// memory" does so.
const memoryVariable = "LOVAGE_BROKER_MEMORY_MESSAGES"

const (
	// defaultBacklog is for an ordinary test run.
	defaultBacklog = 5_000
	// backlogBody is the size of each message's body.
	backlogBody = 1 << 10
	// memoryLimit is what the process may use for a million messages, the index and
	// everything else: in MiB, at its peak.
	memoryLimit = 500
	// maxLateness is how late a message may arrive while the backlog waits.
	maxLateness = time.Second
)

// TestABacklogFitsInMemory queues messages in a broker of its own, ready and delayed
// ones, and requires that the process stays small and that a message due in 1 s comes
// on time meanwhile, before and after a restart.
func TestABacklogFitsInMemory(t *testing.T) {
	count := numberFrom(t, memoryVariable, defaultBacklog)
	for kind, delay := range map[string]int32{"ready": 0, "delayed": 3600} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			child := startChild(t, dir)
			started := time.Now()
			sendBacklog(t, child.address, count, delay)
			t.Logf("%d %s messages of %d bytes sent in %v", count, kind, backlogBody, time.Since(started).Round(time.Millisecond))
			checkBacklog(t, child, "with the backlog")

			child.kill(t)
			started = time.Now()
			child = startChild(t, dir)
			t.Logf("started again in %v", time.Since(started).Round(time.Millisecond))
			checkBacklog(t, child, "after kill -9 and a new start")
			child.stop(t)
		})
	}
}

// sendBacklog sends messages whose bodies can't be compressed.
func sendBacklog(t *testing.T, address string, count int, delay int32) {
	t.Helper()
	const batch, underWay = 500, 8
	conn := dialChild(t, address)
	defer func() { require.NoError(t, conn.Close()) }()
	client := pb.NewKubemqClient(conn)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(underWay)
	for first := 0; first < count; first += batch {
		group.Go(func() error {
			request := &pb.QueueMessagesBatchRequest{}
			for range min(batch, count-first) {
				message := testMessage("backlog", "")
				message.Body = make([]byte, backlogBody)
				_, _ = rand.Read(message.Body) // never fails
				message.Policy = &pb.QueueMessagePolicy{DelaySeconds: delay}
				request.Messages = append(request.Messages, message)
			}
			response, err := client.SendQueueMessagesBatch(ctx, request)
			if err != nil {
				return err
			}
			for _, result := range response.Results {
				if result.IsError {
					return errors.New(result.Error)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

// checkBacklog measures lateness and memory.
func checkBacklog(t *testing.T, child *childBroker, when string) {
	t.Helper()
	late := worstLateness(t, child.address)
	peak, now := memoryOf(t, child.command.Process.Pid)
	t.Logf("%s: %d MiB of memory, %d at the peak; due in 1 s came %v late", when, now, peak, late.Round(time.Millisecond))
	require.LessOrEqual(t, peak, memoryLimit)
	require.Less(t, late, maxLateness)
	require.GreaterOrEqual(t, late, time.Duration(0), "early")
}

// worstLateness sends messages due in 1 s to a consumer that waits, and returns how
// late the latest came, or how early if one did.
func worstLateness(t *testing.T, address string) time.Duration {
	t.Helper()
	const messages = 5
	conn := dialChild(t, address)
	defer func() { require.NoError(t, conn.Close()) }()
	client := pb.NewKubemqClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	due := make(map[string]time.Time)
	for i := range messages {
		message := testMessage("due", strconv.Itoa(i))
		message.Policy = &pb.QueueMessagePolicy{DelaySeconds: 1}
		sent, err := client.SendQueueMessage(ctx, message)
		require.NoError(t, err)
		require.False(t, sent.IsError, sent.Error)
		due[strconv.Itoa(i)] = time.Unix(0, sent.DelayedTo)
	}
	var worst time.Duration
	for range messages {
		got, err := client.ReceiveQueueMessages(ctx, &pb.ReceiveQueueMessagesRequest{
			ClientID: "c", Channel: "due", MaxNumberOfMessages: 1, WaitTimeSeconds: 5,
		})
		require.NoError(t, err)
		require.Len(t, got.Messages, 1)
		late := time.Since(due[string(got.Messages[0].Body)])
		if late < 0 {
			return late
		}
		worst = max(worst, late)
	}
	return worst
}

// memoryOf reads the resident memory of a process in MiB, at its peak and now.
func memoryOf(t *testing.T, pid int) (peak, now int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	field := func(name string) int {
		_, after, found := strings.Cut(string(status), name+":")
		require.True(t, found, name)
		kib, err := strconv.Atoi(strings.Fields(after)[0])
		require.NoError(t, err)
		return kib >> 10
	}
	return field("VmHWM"), field("VmRSS")
}
