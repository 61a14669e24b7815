package canvas_test

import (
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/canvas"
	"github.com/lovage-project/lovage/pkg/protocol"
)

// A task that is the first step of a chain has returned 3.
func Example() {
	task := &protocol.Message{
		Task: "shop.add", ID: "first",
		Chain: []protocol.Signature{ // the last element is the next step
			{Task: "shop.report"},
			{Task: "shop.add", Args: []any{int64(4)}, Options: map[string]any{"task_id": "second"}},
		},
	}
	publisher := canvas.Publisher{
		Routes:       canvas.NewRoutes([][]canvas.Route{{{Task: "shop.*", Options: map[string]any{"queue": "shop"}}}}),
		DefaultQueue: "celery",
	}
	following, err := publisher.Success(task, int64(3), time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, outgoing := range following.Messages {
		m := outgoing.Message
		fmt.Println(m.Task, m.ID, m.Args, "to", m.Queue, "after", m.ParentID, "before", m.Chain[0].Task)
	}
	// Output:
	// shop.add second [3 4] to shop after first before shop.report
}
