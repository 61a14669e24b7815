package tasks_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/tasks/oncetest"
)

func TestOnceMemory(t *testing.T) {
	for _, c := range oncetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, tasks.NewOnceMemory()) })
		})
	}
}

// TestOnceMemoryForgets: keys that are never asked for again don't stay.
func TestOnceMemoryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := tasks.NewOnceMemory()
		claim := func(i int) {
			_, err := store.Claim(t.Context(), strconv.Itoa(i), "a", time.Minute)
			require.NoError(t, err)
		}
		for i := range 1000 {
			claim(i)
		}
		<-time.After(time.Hour)
		for i := range 1000 {
			claim(1000 + i)
		}
		require.Less(t, store.Len(), 1500)
	})
}
