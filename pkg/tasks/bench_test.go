package tasks_test

import (
	"context"
	"testing"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func BenchmarkRun(b *testing.B) {
	r := tasks.NewRegistry()
	tasks.HandleArguments(r, "untyped", nothing)
	tasks.Handle(r, "typed", func(_ context.Context, in struct {
		ID       string `celery:"order_id"`
		Quantity int
		Tags     []string
		Note     string `celery:"note,default=none"`
	}) (string, error) {
		return in.ID, nil
	})
	if err := r.Err(); err != nil {
		b.Fatal(err)
	}
	args := tasks.Arguments{Args: []any{"A1", int64(3)}, Kwargs: map[string]any{"tags": []any{"a", "b"}}}
	for _, name := range r.Names() {
		task, _ := r.Lookup(name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := task.Run(context.Background(), args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
