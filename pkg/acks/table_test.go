package acks

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func policies() []Policy {
	all := make([]Policy, 0, 32)
	for bits := range 32 {
		all = append(all, Policy{
			Late: bits&1 != 0, OnFailure: bits&2 != 0, OnTimeout: bits&4 != 0, RejectOnWorkerLost: bits&8 != 0,
			Redeliver: bits&16 != 0,
		})
	}
	return all
}

func TestTableIsComplete(t *testing.T) {
	for outcome := range outcomes {
		for _, policy := range policies() {
			rows := 0
			for _, r := range table {
				if r.outcome == outcome && r.when.holds(policy) {
					rows++
				}
			}
			require.Equal(t, 1, rows, "%v under %+v", outcome, policy)
		}
	}
}

func TestEveryRowIsReached(t *testing.T) {
	reached := map[string]bool{}
	for _, policy := range policies() {
		for outcome := range outcomes {
			reached[fmt.Sprintf("%v %+v", outcome, Decide(policy, outcome))] = true
		}
	}
	for _, r := range table {
		require.True(t, reached[fmt.Sprintf("%v %+v", r.outcome, r.then)], "row for %v is dead", r.outcome)
	}
}
