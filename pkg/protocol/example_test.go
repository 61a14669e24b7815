package protocol_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// A message goes out in an envelope and comes back.
func Example() {
	out := &protocol.Message{
		Task: "shop.process_order", ID: "42",
		Args: []any{"A-17"}, Kwargs: map[string]any{"timeout": 1500 * time.Millisecond},
		Queue: "orders",
	}
	env, err := protocol.EncodeMessage(out, protocol.EncodeOptions{})
	if err != nil {
		panic(err)
	}
	env.Properties.DeliveryTag = "unique"
	wire, err := env.Encode()
	if err != nil {
		panic(err)
	}

	env, err = protocol.DecodeEnvelope(wire, protocol.DefaultLimits())
	if err != nil {
		panic(err)
	}
	in, err := protocol.DecodeMessage(env, protocol.DecodeOptions{Limits: protocol.DefaultLimits()})
	if err != nil {
		panic(err)
	}
	fmt.Println(in.Task, in.Args, in.Kwargs, in.ArgsRepr, in.KwargsRepr)
	// Output: shop.process_order [A-17] map[timeout:1.5] ('A-17',) {'timeout': 1.5}
}

// The errors of DecodeMessage are told apart by their types.
func ExampleDecodeMessage() {
	env := &protocol.Envelope{
		Body:        []byte(`[[], {}, {}]`),
		ContentType: protocol.ContentTypeJSON,
		Headers:     map[string]any{"task": "shop.unknown", "id": "42"},
	}
	_, err := protocol.DecodeMessage(env, protocol.DecodeOptions{
		Limits: protocol.DefaultLimits(),
		Known:  func(task string) bool { return task == "shop.process_order" },
	})
	var unknown *protocol.UnknownTaskError
	if errors.As(err, &unknown) {
		fmt.Println(unknown.Task, unknown.ID)
	}
	// Output: shop.unknown 42
}

func ExampleToValue() {
	type order struct {
		ID    string        `celery:"order_id"`
		Notes []string      `celery:"notes,omitempty"`
		Wait  time.Duration `json:"wait"`
	}
	value, err := protocol.ToValue(order{ID: "A-17", Wait: time.Second})
	fmt.Println(value, err)
	// Output: map[order_id:A-17 wait:1] <nil>
}

func ExampleRepr() {
	fmt.Println(protocol.Repr(map[string]any{"a": nil, "b": []any{true, 1.5, []byte("x")}}, 0))
	fmt.Println(protocol.Repr([]any{[]any{[]any{[]any{1}}}}, 0))
	// Output:
	// {'a': None, 'b': [True, 1.5, b'x']}
	// [[[[...]]]]
}

// Integers are exact, and so are the types that JSON lacks.
func ExampleDecodeJSON() {
	value, err := protocol.DecodeJSON([]byte(`[9007199254740993, 1e400, {"__type__": "decimal", "__value__": "1.10"}]`), protocol.DefaultLimits())
	fmt.Printf("%v %T %v\n", value, value.([]any)[2], err)
	// Output: [9007199254740993 +Inf 1.10] protocol.Decimal <nil>
}

func ExampleEncodeMeta() {
	body, contentType, _, err := protocol.EncodeMeta("json", protocol.Meta{
		TaskID: "42",
		Status: protocol.StateFailure,
		Result: protocol.Exception{Type: "PaymentError", Module: "shop", Args: []any{"card refused"}},
	})
	fmt.Println(contentType, err)
	fmt.Println(string(body))
	// Output:
	// application/json <nil>
	// {"children": [], "date_done": null, "result": {"exc_message": ["card refused"], "exc_module": "shop", "exc_type": "PaymentError"}, "status": "FAILURE", "task_id": "42", "traceback": null}
}
