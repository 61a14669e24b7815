package meter_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lovage-project/lovage/bench/meter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAMeterTellsWhatItHasCounted(t *testing.T) {
	m := meter.New()
	m.Start()
	m.Start()
	require.NoError(t, m.Note(2*time.Millisecond))
	require.NoError(t, m.Note(4*time.Millisecond))
	var out bytes.Buffer
	require.NoError(t, m.Answer(strings.NewReader("\nlatencies\n"), &out))

	decoder := json.NewDecoder(&out)
	var first, second meter.State
	require.NoError(t, decoder.Decode(&first))
	require.NoError(t, decoder.Decode(&second))
	require.EqualValues(t, 2, first.Started)
	require.NotZero(t, first.First)
	require.Nil(t, first.Latencies)
	got := hdrhistogram.Import(second.Latencies)
	require.EqualValues(t, 2, got.TotalCount())
	require.InEpsilon(t, 4*time.Millisecond, got.ValueAtQuantile(99), 0.001)
}

func TestALatencyOutOfBoundsCounts(t *testing.T) {
	m := meter.New()
	require.NoError(t, m.Note(-time.Second))
	require.NoError(t, m.Note(time.Hour))
	var out bytes.Buffer
	require.NoError(t, m.Answer(strings.NewReader(meter.Latencies+"\n"), &out))
	var s meter.State
	require.NoError(t, json.NewDecoder(&out).Decode(&s))
	got := hdrhistogram.Import(s.Latencies)
	require.EqualValues(t, 1, got.Min())
	require.InEpsilon(t, meter.MaxLatency, got.Max(), 0.001)
}

func TestProfilesAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cell")
	var out bytes.Buffer
	require.NoError(t, meter.New().Answer(strings.NewReader(meter.Profile+" "+path+"\n\n"+meter.Profiled+"\n"), &out))
	require.Equal(t, 3, strings.Count(out.String(), "\n"), "each line has an answer")
	for _, name := range []string{"cpu", "allocs", "mutex", "block"} {
		info, err := os.Stat(path + "." + name)
		require.NoError(t, err)
		require.Positive(t, info.Size(), name)
	}
	require.Error(t, meter.New().Answer(strings.NewReader(meter.Profile+" "+path+"/no/such\n"), &out))
}
