package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		require.InDelta(t, test.want, median(test.values), 1e-9, "%v", test.values)
	}
}

func TestSpread(t *testing.T) {
	require.Zero(t, spread(nil))
	require.Zero(t, spread([]float64{7}))
	require.InDelta(t, 0.5, spread([]float64{8, 10, 13}), 1e-9)
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	// The machine was half as fast in the second round, for both.
	require.Equal(t, []float64{2, 2}, ratios([]float64{20, 10}, []float64{10, 5}))
	require.Equal(t, []float64{2}, ratios([]float64{20, 10}, []float64{10}))
	require.Empty(t, ratios([]float64{20}, []float64{0}))
}
