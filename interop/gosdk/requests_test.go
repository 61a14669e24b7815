package gosdk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubemq-io/kubemq-go"
	"github.com/stretchr/testify/require"
)

// untilAnswered asks until a responder is there: the SDK doesn't say when a
// subscription is active.
func untilAnswered(t *testing.T, ask func() error) {
	t.Helper()
	for start := time.Now(); ; {
		err := ask()
		if err == nil {
			return
		}
		require.ErrorContains(t, err, "Error 301: timeout for request message")
		require.Less(t, time.Since(start), patience)
	}
}

func TestCommandsByTheClient(t *testing.T) {
	client := connect(t)
	ctx := bounded(t)
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error, 1)
	commands, err := client.SubscribeToCommands(listening, "cmd", "group", failures)
	require.NoError(t, err)
	answered := make(chan error, 1)
	go func() {
		for command := range received(listening, commands) {
			response := client.R().SetRequestId(command.Id).SetResponseTo(command.ResponseTo).
				SetExecutedAt(time.Now()).SetBody([]byte("not for commands")).SetMetadata("neither")
			if string(command.Body) == "fail" {
				response = response.SetError(errors.New("it failed"))
			}
			if err := response.Send(ctx); err != nil {
				answered <- err
			}
		}
		close(answered)
	}()
	var response *kubemq.CommandResponse
	ask := func(body string) func() error {
		return func() (err error) {
			response, err = client.C().SetId("id").SetChannel("cmd").SetBody([]byte(body)).SetTimeout(200 * time.Millisecond).Send(ctx)
			return err
		}
	}
	untilAnswered(t, ask("do"))
	require.True(t, response.Executed)
	require.Equal(t, "id", response.CommandId)
	untilAnswered(t, ask("fail"))
	require.False(t, response.Executed)
	require.Equal(t, "it failed", response.Error)
	cancel()
	require.NoError(t, <-answered)

	_, err = client.C().SetChannel("nobody").SetBody([]byte("x")).SetTimeout(time.Millisecond).Send(ctx)
	require.ErrorContains(t, err, "Error 301: timeout for request message")
}

func TestQueriesByTheClient(t *testing.T) {
	client := connect(t)
	ctx := bounded(t)
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error, 1)
	queries, err := client.SubscribeToQueries(listening, "q", "", failures)
	require.NoError(t, err)
	answered := make(chan error, 1)
	go func() {
		for query := range received(listening, queries) {
			err := client.R().SetRequestId(query.Id).SetResponseTo(query.ResponseTo).SetExecutedAt(time.Now()).
				SetMetadata("meta").SetBody(append([]byte("re: "), query.Body...)).SetTags(query.Tags).Send(ctx)
			if err != nil {
				answered <- err
			}
		}
		close(answered)
	}()
	var response *kubemq.QueryResponse
	ask := func(body string) func() error {
		return func() (err error) {
			response, err = client.Q().SetChannel("q").SetBody([]byte(body)).AddTag("k", "v").SetTimeout(200 * time.Millisecond).
				SetCacheKey("key").SetCacheTTL(time.Hour).Send(ctx)
			return err
		}
	}
	untilAnswered(t, ask("first"))
	require.True(t, response.Executed)
	require.False(t, response.CacheHit)
	require.Equal(t, "re: first", string(response.Body))
	require.Equal(t, "meta", response.Metadata)
	require.Equal(t, map[string]string{"k": "v"}, response.Tags)
	require.NoError(t, ask("second")())
	require.True(t, response.CacheHit)
	require.Equal(t, "re: first", string(response.Body))
	cancel()
	require.NoError(t, <-answered)
}

// received ranges over what a channel of the SDK, which it does not close, gets
// until ctx ends.
func received[T any](ctx context.Context, c <-chan T) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for {
			select {
			case item := <-c:
				if !yield(item) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}
