package main

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestABareLoopIsMeasured runs the smallest cell, with a broker and a loop in processes
// of their own.
func TestABareLoopIsMeasured(t *testing.T) {
	b := &bench{options: options{window: 10 * time.Second}, dir: t.TempDir()}
	for _, results := range []bool{false, true} {
		c := cell{key: "loop", system: systemCeiling, slots: 8, results: results, messages: 2000}.complete()
		f, err := b.measure(t.Context(), c)
		require.NoError(t, err)
		require.Positive(t, f.Rate)
		require.Positive(t, f.Objects)
		require.Positive(t, f.Memory)
	}
}

func TestAProcessThatEndsIsNoticed(t *testing.T) {
	p, err := startProcess(t.Context(), nil, "/bin/sh", "-c", "echo broken >&2; exit 3")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.ended() != nil }, 10*time.Second, pollPause)
	require.Eventually(t, func() bool { return strings.Contains(p.ended().Error(), "broken") }, 10*time.Second, pollPause)
	require.NoError(t, p.end())
}

func TestAForeignProgramEndsWithItsStandardInput(t *testing.T) {
	p, err := startForeign(t.Context(), nil, "/bin/sleep", "60")
	require.NoError(t, err)
	require.NoError(t, p.ended())
	require.NoError(t, p.stdin.Close()) // as when the benchmark is killed
	require.Eventually(t, func() bool { return p.ended() != nil }, 10*time.Second, pollPause)
	require.NoError(t, p.end())
}

func TestNothingCanBeMeasuredBetweenTheSameMoments(t *testing.T) {
	now := moment{at: time.Now()}
	_, err := between(now, now, 10)
	require.Error(t, err)
	f, err := between(now, moment{at: now.at.Add(2 * time.Second), cost: cost{cpu: time.Second}}, 100)
	require.NoError(t, err)
	require.InDelta(t, 50, f.Rate, 1e-9)
	require.InDelta(t, 10_000, f.CPU, 1e-9)
}

func TestRedisAnswers(t *testing.T) {
	r := &redis{reader: bufio.NewReader(strings.NewReader(":42\r\n+OK\r\n-ERR no\r\n"))}
	n, err := r.answer()
	require.NoError(t, err)
	require.EqualValues(t, 42, n)
	n, err = r.answer()
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = r.answer()
	require.ErrorContains(t, err, "ERR no")
	_, err = r.answer()
	require.Error(t, err)
}

func TestGrowthComparesTheLastThirds(t *testing.T) {
	var samples []soakSample
	for _, goroutines := range []int{500, 400, 300, 100, 100, 100, 100, 130, 100} {
		samples = append(samples, soakSample{goroutines: goroutines})
	}
	of := func(one soakSample) float64 { return float64(one.goroutines) }
	require.Zero(t, growth(samples, of), "the start does not count, nor a single peak")
	require.InDelta(t, 40, growth(append(samples, soakSample{goroutines: 140}, soakSample{goroutines: 140}, soakSample{goroutines: 150}), of), 1e-9)
}

func TestATailKeepsTheEnd(t *testing.T) {
	var kept tail
	for range 100 {
		n, err := kept.Write([]byte(strings.Repeat("x", 100)))
		require.NoError(t, err)
		require.Equal(t, 100, n)
	}
	_, err := kept.Write([]byte("end"))
	require.NoError(t, err)
	require.Len(t, kept.text(), keptOutput)
	require.True(t, strings.HasSuffix(kept.text(), "xend"))
}
