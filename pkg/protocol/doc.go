// Package protocol holds Celery's wire formats and nothing else: the kombu
// envelope, messages of protocol 1 and 2, serializers, compression, signatures,
// result metas and exceptions. It is made of pure functions and plain types:
// no I/O, no goroutine, no clock.
//
// A decoded value is one of: nil, bool, int64, *big.Int (only what int64 can't
// hold), float64 (NaN and infinities too), string, []byte, time.Time (an aware
// datetime), NaiveDateTime, Date, TimeOfDay, Decimal, uuid.UUID, []any and
// map[string]any. ToValue turns other Go values into these.
package protocol
