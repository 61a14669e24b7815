package protocol

import (
	"errors"
	"strings"
	"time"
)

// isoClock is the time part of an ISO 8601 text. zone is nil without an offset.
type isoClock struct {
	hour, minute, second, micro int
	zone                        *time.Location
}

// parseISOClock reads hh, hh:mm, hhmm, hh:mm:ss[.f] and hhmmss[.f] with an
// optional offset.
func parseISOClock(text string, form offsetForm) (isoClock, error) {
	var c isoClock
	if len(text) < 2 {
		return c, errors.New("ISO time too short")
	}
	clock, offset := text, ""
	if i := strings.IndexAny(text, "+-Zz"); i >= 0 {
		clock, offset = text[:i], text[i:]
		var err error
		if c.zone, err = parseOffset(offset, form); err != nil {
			return c, err
		}
	}
	if err := c.parseFields(clock, offset == ""); err != nil {
		return c, err
	}
	return c, c.check()
}

// parseFields reads the digits. A fraction may follow the seconds only. The last
// field may be one digit at the end of the text, which dateutil does not notice.
func (c *isoClock) parseFields(clock string, isEnd bool) error {
	rest, colons := clock, false
	for i, field := range []*int{&c.hour, &c.minute, &c.second} {
		if rest == "" {
			return nil
		}
		switch {
		case i == 1 && rest[0] == ':':
			rest, colons = rest[1:], true
		case i == 2 && colons:
			if rest[0] != ':' {
				return errors.New("inconsistent use of colon separator")
			}
			rest = rest[1:]
		}
		size := 2
		if isEnd && len(rest) == 1 {
			size = 1
		}
		var err error
		if *field, rest, err = takeDigits(rest, size); err != nil {
			return err
		}
	}
	if rest == "" {
		return nil
	}
	return c.parseFraction(rest)
}

func (c *isoClock) parseFraction(text string) error {
	if text[0] != '.' && text[0] != ',' || len(text) == 1 {
		return errors.New("unused components in ISO string")
	}
	digits := text[1:]
	if strings.Trim(digits, "0123456789") != "" {
		return errors.New("unused components in ISO string")
	}
	micros, err := digitsOf((digits + "000000")[:6])
	c.micro = micros
	return err
}

func (c *isoClock) check() error {
	if c.hour == 24 {
		if c.minute != 0 || c.second != 0 || c.micro != 0 {
			return errors.New("hour may only be 24 at 24:00:00.000")
		}
		return nil
	}
	if c.hour > 23 || c.minute > 59 || c.second > 59 {
		return errors.New("hour, minute or second is out of range")
	}
	return nil
}

// parseOffset reads Z, +hh, +hhmm and +hh:mm, and +hh:mm:ss where form allows
// it.
func parseOffset(text string, form offsetForm) (*time.Location, error) {
	if text == "Z" || text == "z" {
		return time.UTC, nil
	}
	if text[0] == 'Z' || text[0] == 'z' {
		return nil, errors.New("time zone offset requires sign")
	}
	seconds := 0
	if rest, ok := strings.CutPrefix(text[min(6, len(text)):], ":"); ok && form == offsetSeconds {
		var err error
		if seconds, err = digitsOf(rest); err != nil {
			return nil, err
		}
		text = text[:6]
	}
	hours, minutes, err := offsetFields(text[1:])
	if err != nil {
		return nil, err
	}
	if hours > 23 || minutes > 59 || seconds > 59 {
		return nil, errors.New("invalid hours or minutes in time zone offset")
	}
	offset := hours*3600 + minutes*60 + seconds
	if text[0] == '-' {
		offset = -offset
	}
	return fixedZone(offset), nil
}

// offsetFields splits what follows the sign. dateutil checks the length of the
// whole, not that of the minutes: +01:5 is five past one.
func offsetFields(text string) (hours, minutes int, err error) {
	if len(text) != 2 && len(text) != 4 && len(text) != 5 {
		return 0, 0, errors.New("time zone offset must be 1, 3, 5 or 6 characters")
	}
	if hours, err = digitsOf(text[:2]); err != nil || len(text) == 2 {
		return hours, 0, err
	}
	minutes, err = digitsOf(strings.TrimPrefix(text[2:], ":"))
	return hours, minutes, err
}

// fixedZone is a zone without a name, or UTC itself.
func fixedZone(offset int) *time.Location {
	if offset == 0 {
		return time.UTC
	}
	return time.FixedZone("", offset)
}

// parseTimeOfDay reads Python's time.isoformat(). The date of the result means
// nothing.
func parseTimeOfDay(text string) (t time.Time, aware bool, err error) {
	c, err := parseISOClock(text, offsetSeconds)
	if err != nil {
		return time.Time{}, false, err
	}
	if c.hour == 24 {
		return time.Time{}, false, errors.New("hour must be in 0..23")
	}
	zone := c.zone
	if zone == nil {
		zone = time.UTC
	}
	return time.Date(1, time.January, 1, c.hour, c.minute, c.second, c.micro*1000, zone), c.zone != nil, nil
}
