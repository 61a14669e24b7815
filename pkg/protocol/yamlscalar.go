package protocol

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// These are PyYAML's resolvers, in the order in which it tries them.
var (
	yamlBool      = regexp.MustCompile(`^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)
	yamlFloat     = regexp.MustCompile(`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
	yamlInt       = regexp.MustCompile(`^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)
	yamlNull      = regexp.MustCompile(`^(?:~|null|Null|NULL|)$`)
	yamlTimestamp = regexp.MustCompile(`^([0-9]{4})-([0-9][0-9]?)-([0-9][0-9]?)(?:(?:[Tt]|[ \t]+)([0-9][0-9]?):([0-9][0-9]):([0-9][0-9])(?:\.([0-9]*))?(?:[ \t]*(Z|([-+])([0-9][0-9]?)(?::([0-9][0-9]))?))?)?$`)
	yamlDate      = regexp.MustCompile(`^[0-9]{4}-[0-9][0-9]-[0-9][0-9]$`)
)

// resolveYAML is the tag of a plain scalar.
func resolveYAML(text string) string {
	switch {
	case yamlBool.MatchString(text):
		return "bool"
	case yamlFloat.MatchString(text):
		return "float"
	case yamlInt.MatchString(text):
		return "int"
	case text == "<<":
		return "merge"
	case yamlNull.MatchString(text):
		return "null"
	case yamlDate.MatchString(text), yamlTimestamp.MatchString(text) && strings.Contains(text, ":"):
		return "timestamp"
	case text == "=":
		return "value"
	}
	return "str"
}

func yamlScalar(tag, text string) (any, error) {
	switch tag {
	case "str":
		return text, nil
	case "null":
		return nil, nil
	case "bool":
		switch strings.ToLower(text) {
		case "yes", "true", "on":
			return true, nil
		case "no", "false", "off":
			return false, nil
		}
		return nil, fmt.Errorf("%q is not a boolean", cut(text))
	case "int":
		return yamlIntValue(text)
	case "float":
		return yamlFloatValue(text)
	case "timestamp":
		return yamlTimeValue(text)
	case "binary":
		return decodeBase64(text)
	}
	return nil, errYAMLTag(tag)
}

// yamlSign takes underscores and the sign off a number.
func yamlSign(text string) (digits string, negative bool) {
	digits = strings.ReplaceAll(text, "_", "")
	negative = strings.HasPrefix(digits, "-")
	if negative || strings.HasPrefix(digits, "+") {
		digits = digits[1:]
	}
	return digits, negative
}

func yamlIntValue(text string) (any, error) {
	digits, negative := yamlSign(text)
	if len(digits) > maxIntDigits {
		return nil, &LimitError{What: "digits of an integer", Limit: maxIntDigits}
	}
	base := 10
	switch {
	case strings.HasPrefix(digits, "0b"):
		digits, base = digits[2:], 2
	case strings.HasPrefix(digits, "0x"):
		digits, base = digits[2:], 16
	case strings.HasPrefix(digits, "0") && digits != "0":
		base = 8
	}
	// Base 60 is written 1:30; the other bases have no colon.
	total := new(big.Int)
	for part := range strings.SplitSeq(digits, ":") {
		n, ok := new(big.Int).SetString(part, base)
		if !ok || n.Sign() < 0 {
			return nil, fmt.Errorf("%q is not an integer", cut(text))
		}
		total.Add(total.Mul(total, big.NewInt(60)), n)
	}
	if negative {
		total.Neg(total)
	}
	return intValue(total), nil
}

func yamlFloatValue(text string) (any, error) {
	digits, negative := yamlSign(strings.ToLower(text))
	total, sixty := 0.0, 1.0
	switch digits {
	case ".inf":
		total = math.Inf(1)
	case ".nan":
		return math.NaN(), nil
	default:
		// From the right, as PyYAML does: the rounding is the same then.
		parts := strings.Split(digits, ":")
		for i := len(parts) - 1; i >= 0; i-- {
			f, err := strconv.ParseFloat(parts[i], 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) || strings.Contains(parts[i], "x") {
				return nil, fmt.Errorf("%q is not a float", cut(text))
			}
			total += f * sixty
			sixty *= 60
		}
	}
	if negative {
		total = -total
	}
	return total, nil
}

func yamlTimeValue(text string) (any, error) {
	fields := yamlTimestamp.FindStringSubmatch(text)
	if fields == nil {
		return nil, fmt.Errorf("%q is not a timestamp", cut(text))
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(fields[i])
		return n
	}
	date, _, err := dateOf(number(1), number(2), number(3), "")
	if err != nil {
		return nil, err
	}
	if date.Year() == 0 {
		return nil, errors.New("year 0 is out of range")
	}
	if fields[4] == "" {
		return Date{date.Year(), date.Month(), date.Day()}, nil
	}
	clock := isoClock{hour: number(4), minute: number(5), second: number(6)}
	if fields[7] != "" {
		clock.micro, _ = strconv.Atoi((fields[7] + "000000")[:6])
	}
	if err := clock.check(); err != nil || clock.hour == 24 {
		return nil, errors.New("hour, minute or second is out of range")
	}
	offset := number(10)*3600 + number(11)*60
	if offset >= 24*60*60 {
		return nil, errors.New("offset is out of range")
	}
	if fields[9] == "-" {
		offset = -offset
	}
	t := time.Date(date.Year(), date.Month(), date.Day(), clock.hour, clock.minute, clock.second, clock.micro*1000, fixedZone(offset))
	if fields[8] == "" {
		return NaiveDateTime{t}, nil
	}
	return t, nil
}
