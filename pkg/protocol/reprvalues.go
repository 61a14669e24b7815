package protocol

import (
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// scalarRepr is Python's repr of a wire value that is not a container.
func scalarRepr(v any) (string, bool) {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), true
	case int:
		return strconv.Itoa(v), true
	case *big.Int:
		return v.String(), true
	case float64:
		return pythonFloat(v), true
	case Decimal:
		return "Decimal('" + string(v) + "')", true
	case uuid.UUID:
		return "UUID('" + v.String() + "')", true
	case time.Time:
		return "datetime.datetime(" + dateTimeFields(v) + ", tzinfo=" + timezoneRepr(v) + ")", true
	case NaiveDateTime:
		return "datetime.datetime(" + dateTimeFields(v.Time) + ")", true
	case Date:
		return fmt.Sprintf("datetime.date(%d, %d, %d)", v.Year, v.Month, v.Day), true
	case TimeOfDay:
		return timeOfDayRepr(v), true
	}
	return "", false
}

func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// dateTimeFields writes what stands between the brackets of datetime.datetime();
// Python leaves out seconds and microseconds where both, or the latter, are 0.
func dateTimeFields(t time.Time) string {
	return fmt.Sprintf("%d, %d, %d, ", t.Year(), t.Month(), t.Day()) + clockFields(t)
}

func clockFields(t time.Time) string {
	text := fmt.Sprintf("%d, %d", t.Hour(), t.Minute())
	micros := t.Nanosecond() / 1000
	if t.Second() != 0 || micros != 0 {
		text += fmt.Sprintf(", %d", t.Second())
	}
	if micros != 0 {
		text += fmt.Sprintf(", %d", micros)
	}
	return text
}

// timezoneRepr writes an offset as Python keeps it: whole days may be negative,
// the seconds are not.
func timezoneRepr(t time.Time) string {
	_, offset := t.Zone()
	switch {
	case offset == 0:
		return "datetime.timezone.utc"
	case offset < 0:
		return fmt.Sprintf("datetime.timezone(datetime.timedelta(days=-1, seconds=%d))", offset+24*60*60)
	default:
		return fmt.Sprintf("datetime.timezone(datetime.timedelta(seconds=%d))", offset)
	}
}

func timeOfDayRepr(t TimeOfDay) string {
	clock, aware, err := parseTimeOfDay(string(t))
	if err != nil {
		return "'" + string(t) + "'"
	}
	if !aware {
		return "datetime.time(" + clockFields(clock) + ")"
	}
	return "datetime.time(" + clockFields(clock) + ", tzinfo=" + timezoneRepr(clock) + ")"
}
