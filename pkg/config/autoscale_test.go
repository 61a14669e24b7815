package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAutoscale(t *testing.T) {
	for text, want := range map[string]Autoscale{
		"":                                   {},
		"worker_autoscale: {max: null}":      {},
		"worker_autoscale: {max: 8}":         {Min: 1, Max: 8, TargetDepthPerSlot: 1},
		"worker_autoscale: {min: 8, max: 8}": {Min: 8, Max: 8, TargetDepthPerSlot: 1},
		"worker_autoscale: {min: 2, max: 8, target_depth_per_slot: 5}": {Min: 2, Max: 8, TargetDepthPerSlot: 5},
	} {
		settings, warnings, err := loadText(t, text)
		require.NoError(t, err, text)
		require.Empty(t, warnings, text)
		require.Equal(t, want, settings.Worker.Autoscale, text)
	}
}

func TestAutoscaleMistakes(t *testing.T) {
	for text, problem := range map[string]string{
		"worker_autoscale: {min: 9, max: 8}":                    "worker_autoscale.min: 9 is not allowed: at most worker_autoscale.max, 8",
		"worker_autoscale: {min: 0, max: 8}":                    "worker_autoscale.min: 0 is not allowed",
		"worker_autoscale: {max: 8, target_depth_per_slot: 0}":  "worker_autoscale.target_depth_per_slot: 0 is not allowed",
		"worker_autoscale: {min: 2}":                            "worker_autoscale.min: has no effect without worker_autoscale.max",
		"worker_autoscale: {target_depth_per_slot: 2}":          "worker_autoscale.target_depth_per_slot: has no effect without",
		"worker_autoscale: {max: 8, target_depth_per_slott: 2}": "nearest is worker_autoscale.target_depth_per_slot",
		"worker_autoscale: 8":                                   "worker_autoscale",
	} {
		_, _, err := loadText(t, text)
		require.ErrorContains(t, err, problem, text)
	}
}

func TestConcurrencyBesideAutoscaleDrawsAWarning(t *testing.T) {
	_, warnings, err := loadText(t, "worker_concurrency: 4\nworker_autoscale: {max: 8}")
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0].String(), "worker_concurrency")
}
