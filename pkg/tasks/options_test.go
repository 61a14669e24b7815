package tasks_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func optionsOf(t *testing.T, options ...tasks.Option) tasks.Options {
	t.Helper()
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "t", nothing, options...)
	return lookup(t, r, "t").Options()
}

func TestOptionDefaultsAreCelerys(t *testing.T) {
	require.Equal(t, tasks.Options{
		MaxRetries: 3, DefaultRetryDelay: 180 * time.Second, RetryBackoffMax: 600 * time.Second, RetryJitter: true,
	}, optionsOf(t))
}

func TestOptions(t *testing.T) {
	yes, no := true, false
	require.Equal(t, tasks.Options{
		AcksLate: &yes, AcksOnFailure: &no, AcksOnTimeout: &no, RejectOnWorkerLost: &yes,
		MaxRetries: tasks.RetryLimitless, DefaultRetryDelay: 0,
		RetryBackoff: 2, RetryBackoffMax: time.Hour, RetryJitter: false,
		IgnoreResult: &yes, StoreErrorsEvenIfIgnored: &yes, TrackStarted: &no,
		Serializer: "msgpack", Throws: []error{io.EOF},
		TimeLimit: time.Minute, SoftTimeLimit: time.Second,
	}, optionsOf(t,
		tasks.AcksLate(), tasks.AcksOnFailure(false), tasks.AcksOnTimeout(false), tasks.RejectOnWorkerLost(true),
		tasks.RetryForever(), tasks.DefaultRetryDelay(0),
		tasks.RetryBackoff(2), tasks.RetryBackoffMax(time.Hour), tasks.RetryJitter(false),
		tasks.IgnoreResult(), tasks.StoreErrorsEvenIfIgnored(), tasks.TrackStarted(false),
		tasks.Serializer("msgpack"), tasks.Throws(io.EOF),
		tasks.TimeLimit(time.Minute), tasks.SoftTimeLimit(time.Second)))
}

func TestExpectedErrors(t *testing.T) {
	options := optionsOf(t, tasks.Throws(io.EOF), tasks.Throws(errNotFound))
	require.True(t, options.Expected(fmt.Errorf("reading: %w", io.EOF)))
	require.True(t, options.Expected(errNotFound))
	require.False(t, options.Expected(errors.New("EOF")))
	require.False(t, optionsOf(t).Expected(io.EOF))
}

var errNotFound = errors.New("not found")
