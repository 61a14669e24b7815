package tasks_test

import (
	"fmt"
	"testing"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// BenchmarkLookup finds a task among many.
func BenchmarkLookup(b *testing.B) {
	r := tasks.NewRegistry()
	for i := range 1000 {
		tasks.HandleArguments(r, fmt.Sprintf("shop.task_%d", i), nothing)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, found := r.Lookup("shop.task_500"); !found {
			b.Fatal("not found")
		}
	}
}
