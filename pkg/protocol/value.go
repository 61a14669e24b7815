package protocol

import "time"

// Decimal is the exact text of a Python decimal.Decimal, such as "1.10" or
// "NaN". It keeps trailing zeros.
type Decimal string

// NaiveDateTime is a Python datetime without a time zone. The wall clock is kept
// in the UTC location; microseconds are the finest unit.
type NaiveDateTime struct{ time.Time }

// Date is a Python date.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// TimeOfDay is a Python time in ISO form, such as "03:04:05.678901+02:00".
type TimeOfDay string

// midnight is the start of the day in UTC.
func (d Date) midnight() time.Time {
	return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC)
}
