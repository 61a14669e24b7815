package binding_test

import (
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks/internal/binding"
)

// everyType has a field for each converter.
type everyType struct {
	Bool     bool                   `celery:"bool,optional"`
	Int      int8                   `celery:"int,optional"`
	Uint     uint64                 `celery:"uint,optional"`
	Float    float64                `celery:"float,optional"`
	Float32  float32                `celery:"float32,optional"`
	Text     string                 `celery:"text,optional"`
	Bytes    []byte                 `celery:"bytes,optional"`
	Time     time.Time              `celery:"time,optional"`
	Naive    protocol.NaiveDateTime `celery:"naive,optional"`
	Date     protocol.Date          `celery:"date,optional"`
	Clock    protocol.TimeOfDay     `celery:"clock,optional"`
	Duration time.Duration          `celery:"duration,optional"`
	Decimal  decimal.Decimal        `celery:"decimal,optional"`
	Exact    protocol.Decimal       `celery:"exact,optional"`
	Big      *big.Int               `celery:"big,optional"`
	ID       *uuid.UUID
	Addr     *netip.Addr
	Any      any              `celery:"any,optional"`
	List     [][]int          `celery:"list,optional"`
	Map      map[int]*big.Int `celery:"map,optional"`
	Self     *everyType
}

type everyCall struct {
	everyType
	Args   []any          `celery:",args"`
	Kwargs map[string]any `celery:",kwargs"`
}

// FuzzBind hands whatever JSON can say to every converter: it fits, or there is a
// TypeError of a bounded length.
func FuzzBind(f *testing.F) {
	for _, seed := range []string{
		`[[], {}]`,
		`[[true, 1, 2, 3.5, 1e300, "x"], {"self": {"int": 5, "self": {"big": 1234567890123456789012345678901234567890}}}]`,
		`[[], {"time": {"__type__": "datetime", "__value__": "2020-01-02T03:04:05+00:00"}, "date": "2020-01-02"}]`,
		`[[], {"decimal": {"__type__": "decimal", "__value__": "1e-5"}, "id": "11111111222243338444555555555555"}]`,
		`[[null, NaN, Infinity], {"list": [[1, 2], [3.0]], "map": {"7": 1}, "addr": "::1", "duration": -0.5}]`,
		`[[], {"bytes": {"__type__": "base64", "__value__": "/wA="}, "clock": "03:04", "other": [1]}]`,
	} {
		f.Add([]byte(seed))
	}
	signature, err := binding.Compile("fuzz.call", reflect.TypeFor[everyCall]())
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		decoded, err := protocol.DecodeJSON(data, protocol.Limits{Body: 1 << 16, Depth: 50, Items: 1000})
		if err != nil {
			return
		}
		call, ok := decoded.([]any)
		if !ok || len(call) != 2 {
			return
		}
		args, _ := call[0].([]any)
		kwargs, _ := call[1].(map[string]any)
		var in everyCall
		if err := signature.Bind(args, kwargs, reflect.ValueOf(&in).Elem()); err != nil {
			var typeError *binding.Error
			require.ErrorAs(t, err, &typeError)
			require.Less(t, len(typeError.Text), 1000)
		}
	})
}
