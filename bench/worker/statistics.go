package main

import "slices"

// median is the middle of the values, or the mean of the two that are; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// spread is how far the values lie apart, as a share of their median.
func spread(values []float64) float64 {
	middle := median(values)
	if middle == 0 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) / middle
}

// ratios divides each value by the one of the same round: what both share, such as a
// busy machine, is no part of it.
func ratios(values, references []float64) []float64 {
	var all []float64
	for i, reference := range references {
		if i < len(values) && reference > 0 {
			all = append(all, values[i]/reference)
		}
	}
	return all
}
