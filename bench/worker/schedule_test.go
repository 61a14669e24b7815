package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAScheduleGoesOnBehindAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := schedule{begin: begin, rate: 10, count: 6}
		var lateness []time.Duration
		calls := 0
		require.NoError(t, s.each(t.Context(), func(first, end int) error {
			calls++
			for i := first; i < end; i++ {
				require.Equal(t, begin.Add(time.Duration(i)*100*time.Millisecond), s.due(i))
				lateness = append(lateness, time.Since(s.due(i)))
			}
			if first == 1 {
				<-time.After(250 * time.Millisecond) // the broker stalls
			}
			return nil
		}))
		require.Equal(t, 5, calls, "what has piled up is sent at once")
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 0, 150 * ms, 50 * ms, 0, 0}, lateness, "what a stall delays counts it")
	})
}

func TestStampsAreReadFromTheHeaders(t *testing.T) {
	due := time.Unix(0, 1_767_225_600_123_456_789)
	stamp, id := stampOf(due)
	w, err := stamp.encode(id, queueName)
	require.NoError(t, err)
	got, err := stampIn(w.message(queueName))
	require.NoError(t, err)
	require.True(t, due.Equal(got))
	w, err = noop(0).encode(id, queueName)
	require.NoError(t, err)
	_, err = stampIn(w.message(queueName))
	require.Error(t, err)
}
