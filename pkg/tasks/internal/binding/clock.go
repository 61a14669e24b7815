package binding

import (
	"reflect"
	"strings"
	"time"

	"github.com/lovage-project/lovage/pkg/protocol"
)

const dateLayout = "2006-01-02"

// convertTime takes datetimes and their ISO texts, which is all that kombu
// before 5.3 sends. One without a zone is UTC, as for Celery's eta and expires.
func convertTime(value any, into reflect.Value) *mismatch {
	var t time.Time
	switch v := value.(type) {
	case time.Time:
		t = v
	case protocol.NaiveDateTime:
		t = v.Time
	case protocol.Date:
		t = time.Date(v.Year, v.Month, v.Day, 0, 0, 0, 0, time.UTC)
	case string:
		parsed, _, ok := parseISO(v)
		if !ok {
			return badText(v, "an ISO 8601 datetime")
		}
		t = parsed
	default:
		return wrongType("datetime", value)
	}
	into.Set(reflect.ValueOf(t))
	return nil
}

// convertNaiveDateTime refuses a datetime with a zone: dropping it would change
// what the value means.
func convertNaiveDateTime(value any, into reflect.Value) *mismatch {
	var naive protocol.NaiveDateTime
	switch v := value.(type) {
	case protocol.NaiveDateTime:
		naive = v
	case string:
		parsed, aware, ok := parseISO(v)
		if aware || !ok {
			return badText(v, "an ISO 8601 datetime without a time zone")
		}
		naive.Time = parsed
	case time.Time:
		return wrongValue("the datetime has a time zone")
	default:
		return wrongType("datetime", value)
	}
	into.Set(reflect.ValueOf(naive))
	return nil
}

// convertDate takes a datetime text at midnight too: that is how kombu before
// 5.3 sends a date.
func convertDate(value any, into reflect.Value) *mismatch {
	date, ok := value.(protocol.Date)
	if text, isText := value.(string); isText {
		parsed, err := time.Parse(dateLayout, strings.TrimSuffix(text, "T00:00:00"))
		if err != nil {
			return badText(text, "an ISO 8601 date")
		}
		date, ok = protocol.Date{Year: parsed.Year(), Month: parsed.Month(), Day: parsed.Day()}, true
	}
	if !ok {
		return wrongType("date", value)
	}
	into.Set(reflect.ValueOf(date))
	return nil
}

func convertTimeOfDay(value any, into reflect.Value) *mismatch {
	clock, ok := value.(protocol.TimeOfDay)
	if text, isText := value.(string); isText {
		if !isTimeOfDay(text) {
			return badText(text, "an ISO 8601 time")
		}
		clock, ok = protocol.TimeOfDay(text), true
	}
	if !ok {
		return wrongType("time", value)
	}
	into.SetString(string(clock))
	return nil
}

// parseISO reads what Python's isoformat writes, with "T" or a space, and "Z";
// aware tells whether the text names its offset. Without one the time is UTC.
// time.Parse reads a fraction of a second without being told.
func parseISO(text string) (t time.Time, aware, ok bool) {
	if len(text) > len(dateLayout) && text[len(dateLayout)] == ' ' {
		text = text[:len(dateLayout)] + "T" + text[len(dateLayout)+1:]
	}
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z07:00:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true, true
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", dateLayout} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, false, true
		}
	}
	return time.Time{}, false, false
}

func isTimeOfDay(text string) bool {
	for _, layout := range []string{"15:04:05", "15:04", "15:04:05Z07:00", "15:04Z07:00"} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}

func dateText(d protocol.Date) string {
	return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Format(dateLayout)
}
