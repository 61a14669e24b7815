package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/bench/meter"
)

// sample is a report in which Lovage does 20,000 tasks a second, Celery 500, and the
// machine was half as fast in the second round.
func sample(t *testing.T) *report {
	t.Helper()
	r := newReport(options{rounds: 2, window: time.Second})
	for _, c := range pairings() {
		rate, cpu := 20_000.0, 40.0
		switch c.system {
		case systemCelery:
			rate, cpu = 500, 2000
		case systemAsynq:
			rate, cpu = 10_000, 60
		}
		if c.key == "8x20ms" {
			rate = 390 // of 400
		}
		l := newLine(c)
		l.add(figure{Rate: rate, CPU: cpu, Objects: 100, Bytes: 5000, Memory: 40 << 20})
		l.add(figure{Rate: rate / 2, CPU: cpu, Objects: 100, Bytes: 5000, Memory: 40 << 20})
		r.Lines = append(r.Lines, l)
	}
	r.addStart(starts()[0], 50*time.Millisecond, 25<<20)
	for key, latency := range map[string]time.Duration{latencyGet: time.Millisecond, latencyStart: 1500 * time.Microsecond} {
		h := meter.NewHistogram()
		require.NoError(t, h.RecordValue(int64(latency)))
		r.addLatency(key, key, 200, h)
	}
	return r.conclude()
}

func TestTargetsAreJudged(t *testing.T) {
	verdicts := make(map[string]string)
	measured := make(map[string]string)
	for _, one := range sample(t).Targets {
		verdicts[one.What], measured[one.What] = one.verdict(), one.measured()
	}
	require.Equal(t, "met", verdicts["tasks/s, no-op, results off ÷ Celery prefork on Redis"])
	require.Equal(t, "40 ×", measured["tasks/s, no-op, results off ÷ Celery prefork on Redis"])
	require.Equal(t, "1/50", measured["CPU a no-op task ÷ Celery prefork"])
	require.Equal(t, "met", verdicts["CPU a no-op task ÷ Celery prefork"])
	require.Equal(t, "1/1.5", measured["CPU a no-op task, late ÷ asynq"])
	require.Equal(t, "**missed**", verdicts["CPU a no-op task, late ÷ asynq"])
	require.Equal(t, "**missed**", verdicts["tasks/s, no-op, late ÷ asynq on Redis"])
	require.Equal(t, "met", verdicts["memory of an idle worker, broker outside"])
	require.Equal(t, "150 %", measured["publish → handler start, idle, p50 ÷ a bare get"])
}

func TestSlotsTimesHandlerTimeIsAllThereCanBe(t *testing.T) {
	for _, one := range sample(t).Targets {
		if strings.HasPrefix(one.What, "8 slots") {
			require.InDelta(t, (390.0+195)/2/400, *one.Value, 1e-9)
		}
	}
}

func TestATargetThatWasNotMeasuredIsNotMet(t *testing.T) {
	r := newReport(options{}).conclude()
	for _, one := range r.Targets {
		require.Equal(t, "not measured", one.verdict(), one.What)
	}
	require.NotContains(t, r.markdown(), "| met |")
}

func TestATableHasAsManyCellsInEachRow(t *testing.T) {
	columns := 0
	for line := range strings.Lines(sample(t).markdown()) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		cells := strings.Count(line, "|")
		if columns == 0 {
			columns = cells
		}
		require.Equal(t, columns, cells, line)
	}
}

func TestALineNamesWhatItMeasures(t *testing.T) {
	table := sample(t).markdown()
	require.Contains(t, table, "| `late-1k` Lovage | no-op | embedded, in memory, own process | 1 KiB | late | off | 64 | left the queue |")
	require.Contains(t, table, "| `celery-prefork-results` Celery prefork | no-op | Redis | none | early | stored |")
	require.Contains(t, table, "| `10000x1s` Lovage | waits 1s | embedded, in memory, own process | none | late | off | 10000 | whole backlog |")
}

func TestAReportIsJSON(t *testing.T) {
	encoded, err := json.Marshal(sample(t))
	require.NoError(t, err)
	var decoded report
	require.NoError(t, json.Unmarshal(encoded, &decoded))
	require.Len(t, decoded.Lines, len(pairings()))
	require.Equal(t, "ceiling-64", decoded.line("late-64").Against)
}

func TestAChartIsXML(t *testing.T) {
	r := sample(t)
	r.Machine.Processor = "<&> processor"
	decoder := xml.NewDecoder(strings.NewReader(r.chart()))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Equal(t, len(bars)+1, strings.Count(r.chart(), "<rect"), "a bar for each, and the ground")
}

func TestCount(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 7.4: "7", 999: "999", 1234: "1,230", 56_789: "56,800", 1_000_000: "1,000,000"} {
		require.Equal(t, want, count(n))
	}
}

func TestTimes(t *testing.T) {
	for ratio, want := range map[float64]string{0.031: "3.1 %", 0.956: "96 %", 1.7: "170 %", 2.51: "2.5 ×", 41.2: "41 ×"} {
		require.Equal(t, want, times(ratio))
	}
}

func TestABlockIsReplacedBetweenItsMarkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "document.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n"), 0o600))
	require.NoError(t, replaceBlock(path, "bench", "new\n"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nafter\n", string(text))
	require.ErrorContains(t, replaceBlock(path, "soak", "new\n"), "<!-- soak:begin -->")
	require.NoError(t, replaceBlock("", "bench", "new\n"))
}
