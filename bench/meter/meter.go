// Package meter counts what happens in a process that the benchmark measures, and
// tells it over the standard input and output.
package meter

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// MaxLatency bounds what a histogram holds; a longer one counts as that.
const MaxLatency = time.Minute

// digits are the decimal digits to which a latency is kept.
const digits = 3

// Requests of Answer; any other line asks for the figures alone.
const (
	// Collect has garbage collected before.
	Collect = "collect"
	// Latencies asks for the histogram too.
	Latencies = "latencies"
)

// NewHistogram is an empty histogram of latencies in nanoseconds, up to MaxLatency.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(MaxLatency), digits)
}

// State is what a process tells about itself.
type State struct {
	// Started is how many tasks have begun, First when the first did, in Unix
	// nanoseconds; 0 if none has.
	Started int64 `json:"started"`
	First   int64 `json:"first"`
	// Objects and Bytes are what was allocated since the start of the process.
	Objects uint64 `json:"objects"`
	Bytes   uint64 `json:"bytes"`
	// Heap is the size of the objects on the heap in bytes.
	Heap       uint64 `json:"heap"`
	Goroutines int    `json:"goroutines"`
	// Latencies are in nanoseconds; nil where they were not asked for.
	Latencies *hdrhistogram.Snapshot `json:"latencies,omitempty"`
}

// Meter counts tasks and their latencies. Its methods may be called from any
// goroutine.
type Meter struct {
	started, first atomic.Int64

	mu        sync.Mutex
	latencies *hdrhistogram.Histogram
}

// New makes a meter that has counted nothing.
func New() *Meter { return &Meter{latencies: NewHistogram()} }

// Start counts a task that begins now.
func (m *Meter) Start() {
	if m.started.Add(1) == 1 {
		m.first.Store(time.Now().UnixNano())
	}
}

// Note adds a latency; what is outside 1 ns to MaxLatency counts as the nearest bound.
func (m *Meter) Note(latency time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.latencies.RecordValue(int64(min(max(latency, 1), MaxLatency))); err != nil {
		return fmt.Errorf("meter: note %v: %w", latency, err)
	}
	return nil
}

// Answer writes a State, as a line of JSON, for each line that it reads, until in
// ends or out fails.
func (m *Meter) Answer(in io.Reader, out io.Writer) error {
	encoder := json.NewEncoder(out)
	var making *profile
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var err error
		if path, ok := strings.CutPrefix(lines.Text(), Profile+" "); ok {
			making, err = startProfile(path)
		}
		if lines.Text() == Profiled && making != nil {
			err = making.write()
		}
		if err = errors.Join(err, encoder.Encode(m.state(lines.Text()))); err != nil {
			return fmt.Errorf("meter: answer %q: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

func (m *Meter) state(request string) State {
	if request == Collect {
		runtime.GC()
	}
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(samples)
	s := State{
		Started: m.started.Load(), First: m.first.Load(),
		Objects: samples[0].Value.Uint64(), Bytes: samples[1].Value.Uint64(), Heap: samples[2].Value.Uint64(),
		Goroutines: runtime.NumGoroutine(),
	}
	if request == Latencies {
		m.mu.Lock()
		s.Latencies = m.latencies.Export()
		m.mu.Unlock()
	}
	return s
}
