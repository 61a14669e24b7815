package binding_test

import (
	"encoding/json"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// kombuTypes has the parameters of the call in testdata/msg_types.json.
type kombuTypes struct {
	Naive   time.Time
	Aware   time.Time
	Date    protocol.Date
	Clock   protocol.TimeOfDay
	Price   decimal.Decimal
	ID      uuid.UUID
	ASCII   []byte
	Binary  []byte
	Tuple   [2]int
	Float   float64
	Integer *big.Int
	Flag    bool
	Nothing *string
}

func requireKombuTypes(t *testing.T, got kombuTypes) {
	t.Helper()
	require.True(t, got.Naive.Equal(time.Date(2020, 1, 2, 3, 4, 5, 678901000, time.UTC)))
	require.True(t, got.Aware.Equal(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)))
	require.Equal(t, "1.10", got.Price.StringFixed(2))
	got.Naive, got.Aware, got.Price = time.Time{}, time.Time{}, decimal.Decimal{}
	require.Equal(t, kombuTypes{
		Date:    protocol.Date{Year: 2020, Month: 1, Day: 2},
		Clock:   "03:04:05",
		ID:      uuid.MustParse("11111111-2222-4333-8444-555555555555"),
		ASCII:   []byte("ascii"),
		Binary:  []byte{0xff, 0},
		Tuple:   [2]int{1, 2},
		Float:   1.5,
		Integer: new(big.Int).Exp(big.NewInt(10), big.NewInt(30), nil),
		Flag:    true,
	}, got)
}

// TestKombuTypes binds a message as kombu 5.6 sends it.
func TestKombuTypes(t *testing.T) {
	data, err := os.ReadFile("testdata/msg_types.json")
	require.NoError(t, err)
	var vector struct {
		Messages []struct {
			Envelope string `json:"redis_value"`
		} `json:"messages"`
	}
	require.NoError(t, json.Unmarshal(data, &vector))
	envelope, err := protocol.DecodeEnvelope([]byte(vector.Messages[0].Envelope), protocol.DefaultLimits())
	require.NoError(t, err)
	accept, err := protocol.NewAccept([]string{"json"})
	require.NoError(t, err)
	message, err := protocol.DecodeMessage(envelope, protocol.DecodeOptions{Accept: accept, Limits: protocol.DefaultLimits()})
	require.NoError(t, err)
	args, err := message.Positional()
	require.NoError(t, err)

	got, err := bind[kombuTypes](t, args, message.Kwargs)

	require.NoError(t, err)
	requireKombuTypes(t, got)
}

// TestOldKombuTypes binds the same call as kombu before 5.3 sends it: in plain
// strings. It can't send bytes.
func TestOldKombuTypes(t *testing.T) {
	got, err := bind[kombuTypes](t, []any{
		"2020-01-02T03:04:05.678901", "2020-01-02T03:04:05Z", "2020-01-02T00:00:00", "03:04:05", "1.10",
		"11111111-2222-4333-8444-555555555555", []byte("ascii"), []byte{0xff, 0}, []any{int64(1), int64(2)}, 1.5,
		new(big.Int).Exp(big.NewInt(10), big.NewInt(30), nil), true, nil,
	}, nil)
	require.NoError(t, err)
	requireKombuTypes(t, got)
}

func TestPythonTypeNames(t *testing.T) {
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, value := range map[string]any{
		"NoneType": nil, "int": big.NewInt(1), "float": 1.5, "str": "", "bytes": []byte{},
		"datetime": protocol.NaiveDateTime{Time: at}, "date": protocol.Date{}, "time": protocol.TimeOfDay(""),
		"Decimal": protocol.Decimal("1"), "UUID": uuid.Nil, "list": []any{}, "dict": map[string]any{},
		"complex128": 1i, // not a wire value
	} {
		refuses[bool](t, value, "' must be bool, not "+want)
	}
}
