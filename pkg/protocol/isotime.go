package protocol

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FormatTime writes t as Python's datetime.isoformat() does: microseconds, left
// out where they are 0, and the offset of t's location, "+00:00" for UTC. What
// is finer than a microsecond is dropped, since Python has no place for it.
func FormatTime(t time.Time) string {
	if _, offset := t.Zone(); offset%60 != 0 {
		return formatNaive(t) + formatOffset(t)
	}
	if t.Nanosecond()/1000 == 0 {
		return t.Format(layoutSeconds + "-07:00")
	}
	return t.Format(layoutMicros + "-07:00")
}

const layoutSeconds, layoutMicros = "2006-01-02T15:04:05", "2006-01-02T15:04:05.000000"

func formatNaive(t time.Time) string {
	if t.Nanosecond()/1000 == 0 {
		return t.Format(layoutSeconds)
	}
	return t.Format(layoutMicros)
}

// formatOffset is an offset that may have seconds, which time.Format gives the wrong sign
// below a minute.
func formatOffset(t time.Time) string {
	_, offset := t.Zone()
	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	text := fmt.Sprintf("%c%02d:%02d", sign, offset/3600, offset/60%60)
	if seconds := offset % 60; seconds != 0 {
		text += fmt.Sprintf(":%02d", seconds)
	}
	return text
}

// ParseTime reads an eta or expires in any form that Python emits: ISO 8601 with
// any one character between date and time, extended or basic format, dates by
// week or day of the year, fractions after a dot or a comma (cut to
// microseconds), "Z" or an offset with or without a colon, 24:00. Without an
// offset the time is UTC. A datetime that the serializer has decoded already is
// taken as it is. It accepts what dateutil.isoparse, which Celery uses, accepts, but
// for spaces, signs and underscores within a number.
//
// Anything else, numbers included, is an *InvalidTaskError.
//
// A time that is the zero time.Time, which Message uses for "none", is moved by a
// microsecond.
func ParseTime(v any) (time.Time, error) {
	t, err := parseTime(v)
	if err != nil {
		return time.Time{}, &InvalidTaskError{Reason: err.Error()}
	}
	return notZero(t), nil
}

func parseTime(v any) (time.Time, error) {
	switch v := v.(type) {
	case time.Time:
		return v, nil
	case NaiveDateTime:
		return v.Time, nil
	case string:
		t, _, err := parseISO(v, offsetMinutes)
		return t, err
	default:
		return time.Time{}, fmt.Errorf("object of type '%s' has no len()", pythonType(v))
	}
}

// offsetForm is how fine an offset may be: dateutil knows minutes, Python's own
// fromisoformat seconds too, which the local mean times of zones before the
// twentieth century need.
type offsetForm int

const (
	offsetMinutes offsetForm = iota
	offsetSeconds
)

// parseISO reads a date and a time; aware tells whether it has an offset.
func parseISO(text string, form offsetForm) (t time.Time, aware bool, err error) {
	date, rest, err := parseISODate(text)
	if err != nil {
		return time.Time{}, false, err
	}
	if rest == "" {
		return date, false, nil
	}
	if rest[0] >= 0x80 {
		return time.Time{}, false, errors.New("ISO-8601 strings should contain only ASCII characters")
	}
	clock, err := parseISOClock(rest[1:], form)
	if err != nil {
		return time.Time{}, false, err
	}
	location := time.UTC
	if clock.zone != nil {
		location = clock.zone
	}
	year, month, day := date.Date()
	if clock.hour == 24 {
		day, clock.hour = day+1, 0
	}
	t = time.Date(year, month, day, clock.hour, clock.minute, clock.second, clock.micro*1000, location)
	if t.Year() > 9999 {
		return time.Time{}, false, errors.New("date value out of range")
	}
	return t, clock.zone != nil, nil
}

// parseISODate reads the date and returns what follows it. The common forms
// come first, those by week and day of the year if they fail, as in dateutil.
func parseISODate(text string) (time.Time, string, error) {
	if len(text) < 4 {
		return time.Time{}, "", errors.New("ISO string too short")
	}
	year, err := digitsOf(text[:4])
	if err != nil {
		return time.Time{}, "", err
	}
	if year == 0 {
		return time.Time{}, "", errors.New("year 0 is out of range")
	}
	date, rest, err := parseCommonDate(year, text[4:])
	if err != nil {
		return parseUncommonDate(year, text[4:])
	}
	return date, rest, nil
}

// parseCommonDate reads YYYY, YYYY-MM, YYYY-MM-DD and YYYYMMDD.
func parseCommonDate(year int, rest string) (time.Time, string, error) {
	month, day := 1, 1
	if rest == "" {
		return dateOf(year, month, day, "")
	}
	rest, dashed := strings.CutPrefix(rest, "-")
	month, rest, err := takeDigits(rest, 2)
	if err != nil {
		return time.Time{}, "", err
	}
	if rest == "" {
		if !dashed {
			return time.Time{}, "", errors.New("invalid ISO format")
		}
		return dateOf(year, month, day, "")
	}
	if dashed {
		var ok bool
		if rest, ok = strings.CutPrefix(rest, "-"); !ok {
			return time.Time{}, "", errors.New("invalid separator in ISO string")
		}
	}
	day, rest, err = takeDigits(rest, 2)
	if err != nil {
		return time.Time{}, "", err
	}
	return dateOf(year, month, day, rest)
}

// parseUncommonDate reads YYYY-Www, YYYY-Www-D and YYYY-DDD, dashed or not.
func parseUncommonDate(year int, rest string) (time.Time, string, error) {
	rest, dashed := strings.CutPrefix(rest, "-")
	if week, ok := strings.CutPrefix(rest, "W"); ok {
		return parseWeekDate(year, week, dashed)
	}
	ordinal, rest, err := takeDigits(rest, 3)
	if err != nil {
		return time.Time{}, "", err
	}
	date := time.Date(year, time.January, ordinal, 0, 0, 0, 0, time.UTC)
	if ordinal < 1 || date.Year() != year {
		return time.Time{}, "", fmt.Errorf("invalid ordinal day %d for year %d", ordinal, year)
	}
	return date, rest, nil
}

func parseWeekDate(year int, rest string, dashed bool) (time.Time, string, error) {
	// dateutil does not notice a week of one digit at the end.
	week, rest, err := takeDigits(rest, max(1, min(2, len(rest))))
	if err != nil {
		return time.Time{}, "", err
	}
	day := 1
	if rest != "" {
		if (rest[0] == '-') != dashed {
			return time.Time{}, "", errors.New("inconsistent use of dash separator")
		}
		if dashed {
			rest = rest[1:]
		}
		if day, rest, err = takeDigits(rest, 1); err != nil {
			return time.Time{}, "", err
		}
	}
	if week < 1 || week > 53 || day < 1 || day > 7 {
		return time.Time{}, "", fmt.Errorf("invalid week %d or weekday %d", week, day)
	}
	// Week 1 is the one with 4 January in it; weeks start on Monday.
	fourth := time.Date(year, time.January, 4, 0, 0, 0, 0, time.UTC)
	sinceMonday := (int(fourth.Weekday()) + 6) % 7
	date := fourth.AddDate(0, 0, (week-1)*7+day-1-sinceMonday)
	if date.Year() < 1 || date.Year() > 9999 {
		return time.Time{}, "", errors.New("date value out of range")
	}
	return date, rest, nil
}

// dateOf refuses days that time.Date would carry into the next month.
func dateOf(year, month, day int, rest string) (time.Time, string, error) {
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if month < 1 || month > 12 || day < 1 || date.Day() != day {
		return time.Time{}, "", fmt.Errorf("day %d or month %d is out of range", day, month)
	}
	return date, rest, nil
}

// takeDigits reads exactly n digits off the front of text.
func takeDigits(text string, n int) (int, string, error) {
	if len(text) < n {
		return 0, "", errors.New("ISO string too short")
	}
	number, err := digitsOf(text[:n])
	return number, text[n:], err
}

func digitsOf(text string) (int, error) {
	if text == "" {
		return 0, errors.New("invalid literal for int() with base 10: b''")
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("invalid literal for int() with base 10: b'%s'", text)
		}
	}
	return strconv.Atoi(text)
}
