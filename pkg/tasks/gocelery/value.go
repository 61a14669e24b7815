package gocelery

import (
	"encoding/base64"
	"math/big"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// jsonValue turns a wire value into what gocelery's users have always got:
// numbers as float64, and texts where kombu has types. A number that float64
// can't hold exactly stays what it is: code that expects a float64 then fails,
// which is better than going on with another number.
func jsonValue(value any) any {
	switch v := value.(type) {
	case int64:
		if f := float64(v); f < 1<<63 && int64(f) == v {
			return f
		}
		return v
	case *big.Int:
		if f, accuracy := new(big.Float).SetInt(v).Float64(); accuracy == big.Exact {
			return f
		}
		return v
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = jsonValue(item)
		}
		return list
	case map[string]any:
		entries := make(map[string]any, len(v))
		for key, item := range v {
			entries[key] = jsonValue(item)
		}
		return entries
	default:
		return jsonText(v)
	}
}

// jsonText writes what has a type in kombu's JSON in the way of kombu before 5.3,
// which is what gocelery was written for.
func jsonText(value any) any {
	switch v := value.(type) {
	case time.Time:
		if text, isUTC := strings.CutSuffix(protocol.FormatTime(v), "+00:00"); isUTC {
			return text + "Z"
		}
		return protocol.FormatTime(v)
	case protocol.NaiveDateTime:
		return strings.TrimSuffix(protocol.FormatTime(v.Time), "+00:00")
	case protocol.Date:
		return time.Date(v.Year, v.Month, v.Day, 0, 0, 0, 0, time.UTC).Format("2006-01-02T15:04:05")
	case protocol.TimeOfDay:
		return string(v)
	case protocol.Decimal:
		return string(v)
	case uuid.UUID:
		return v.String()
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
		return base64.StdEncoding.EncodeToString(v)
	default:
		return v
	}
}
