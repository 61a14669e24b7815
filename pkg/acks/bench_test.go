package acks

import "testing"

// BenchmarkDecide reads the table for the outcomes that are frequent.
func BenchmarkDecide(b *testing.B) {
	for _, outcome := range []Outcome{Success, Failure, Retry} {
		b.Run(outcome.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Decide(Policy{Late: true, OnFailure: true, OnTimeout: true}, outcome)
			}
		})
	}
}
