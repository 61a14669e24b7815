// Package tasks is what a program with Celery tasks imports: a registry of
// handlers, the request they run for, and the ways a task can end.
//
//	type Order struct {
//		ID    string `celery:"order_id"`
//		Total decimal.Decimal
//	}
//
//	r := tasks.NewRegistry()
//	tasks.Handle(r, "shop.process_order", processOrder, tasks.MaxRetries(3), tasks.AcksLate())
//
// # Arguments
//
// The struct that a handler takes is its Python signature. The fields in order
// are the positional parameters; process_order.delay("A1", Decimal("9.90")) and
// process_order.delay(order_id="A1", total=Decimal("9.90")) both call the handler
// above. A field is named by its `celery` tag, else its `json` tag, else by its Go
// name in Python's style (OrderID is order_id); "-" leaves it out. The tag takes
// options after the name:
//
//	celery:"note,default=hi"  the value where the caller gives none; comes last
//	celery:"note,optional"    the zero value where the caller gives none
//	celery:"note,required"    a pointer that must be given (but may be None);
//	                          other pointers, *big.Int aside, are optional
//	celery:"note,kwonly"      only by keyword
//	celery:",args"            a slice that takes *args; later fields are kwonly
//	celery:",kwargs"          a map that takes **kwargs
//
// Binding follows Python's rules and fails with Python's TypeError, word for word;
// see ArgumentError. A handler without arguments takes None.
//
// Values become field types exactly or not at all: an integer that is too big for
// its field is an error that names the field, the value and the range. A float
// fits an int field if it is a whole number, an int fits a float64 field if that
// can hold it; float32 takes the nearest value. bool and int don't stand for each
// other. time.Time takes datetimes and ISO texts, UTC where they have no zone;
// time.Duration takes seconds. Types with UnmarshalText take strings, ints and
// decimals, so that decimal types stay exact. A dict fills a map or a struct,
// where unknown keys are passed over and missing ones leave the default or zero.
// None fills pointers, slices, maps and any.
//
// # Outcomes
//
// A handler returns a result and nil, or an error. Retry, Reject and Ignore make
// errors that end the task in Celery's other ways; they may be wrapped. Any other
// error is a failure, stored as the Python exception that ExceptionOf tells. A
// panic is a failure too. AutoRetryFor makes retries of failures.
//
// # Hooks
//
// Middleware (Registry.Use) wraps handlers; hooks are told what became of a task:
// those of a task travel with it as options (OnSuccess, OnFailure, OnRetry,
// OnExhausted), those of a worker see all tasks and messages (Registry.AddHook).
package tasks
