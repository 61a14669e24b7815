package oncebolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/tasks/oncebolt"
)

// A task that charges each order once, also over restarts of its worker.
func Example() {
	directory, err := os.MkdirTemp("", "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(directory) }()
	store, err := oncebolt.Open(filepath.Join(directory, "once.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()

	type order struct {
		ID string `celery:"order_id"`
	}
	charge := func(_ context.Context, in order) (string, error) {
		fmt.Println("charging", in.ID)
		return "receipt of " + in.ID, nil
	}
	r := tasks.NewRegistry()
	tasks.Handle(r, "shop.charge", charge, tasks.AcksLate(), tasks.Wrap(
		tasks.Once(store, tasks.OncePer(func(in order) string { return in.ID }), tasks.OnceKeep(7*24*time.Hour))))

	task, _ := r.Lookup("shop.charge")
	for range 2 {
		fmt.Println(task.Run(context.Background(), tasks.Arguments{Args: []any{"A1"}}))
	}
	// Output:
	// charging A1
	// receipt of A1 <nil>
	// receipt of A1 <nil>
}
