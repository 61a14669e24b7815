package protocol

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// decimalSyntax is what Python's Decimal() reads, underscores and white space
// aside.
var decimalSyntax = regexp.MustCompile(`(?i)^[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|inf(?:inity)?|s?nan[0-9]*)$`)

// ParseDecimal checks that text is one that Python's Decimal() reads and returns
// it without white space around it and underscores in it.
func ParseDecimal(text string) (Decimal, error) {
	clean := strings.ReplaceAll(strings.TrimSpace(text), "_", "")
	if !decimalSyntax.MatchString(clean) {
		return "", fmt.Errorf("%q is not a decimal number", cut(text))
	}
	return Decimal(clean), nil
}

// decimalText takes the exact text of a decimal type that can write one.
func decimalText(d digits) (Decimal, error) {
	text, err := d.MarshalText()
	if err != nil {
		return "", err
	}
	return ParseDecimal(string(text))
}

// decimalOf is coefficient × 10^exponent in the form that Python gives it
// ("to-scientific-string" of the decimal specification), trailing zeros kept.
func decimalOf(coefficient *big.Int, exponent int) Decimal {
	sign, digits := "", coefficient.String()
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	adjusted := exponent + len(digits) - 1
	switch {
	case exponent <= 0 && adjusted >= -6:
		point := len(digits) + exponent
		if point <= 0 {
			digits, point = strings.Repeat("0", 1-point)+digits, 1
		}
		if exponent == 0 {
			return Decimal(sign + digits)
		}
		return Decimal(sign + digits[:point] + "." + digits[point:])
	case len(digits) > 1:
		digits = digits[:1] + "." + digits[1:]
	}
	exponentSign := ""
	if adjusted >= 0 {
		exponentSign = "+"
	}
	return Decimal(sign + digits + "E" + exponentSign + strconv.Itoa(adjusted))
}

// cut shortens text that goes into an error: it came from outside and may be
// long.
func cut(text string) string {
	const longest = 60
	if len(text) <= longest {
		return text
	}
	return text[:longest] + "..."
}
