package meter

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
)

// Profile, a blank and a path's beginning ask for profiles from now on; Profiled writes
// them: <path>.cpu, .allocs, .mutex and .block.
const (
	Profile  = "profile"
	Profiled = "profiled"
)

// Rates of the profiles of contention: one in so many events, and one for so many
// nanoseconds blocked.
const (
	mutexFraction = 10
	blockRate     = 100_000
)

// profile is one that is being made.
type profile struct {
	path string
	cpu  *os.File
}

func startProfile(path string) (*profile, error) {
	f, err := os.Create(path + ".cpu") //nolint:gosec // the benchmark's own choice
	if err != nil {
		return nil, err
	}
	runtime.SetMutexProfileFraction(mutexFraction)
	runtime.SetBlockProfileRate(blockRate)
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &profile{path: path, cpu: f}, nil
}

func (p *profile) write() error {
	pprof.StopCPUProfile()
	err := p.cpu.Close()
	for _, name := range []string{"allocs", "mutex", "block"} {
		err = errors.Join(err, p.writeOne(name))
	}
	return err
}

func (p *profile) writeOne(name string) error {
	f, err := os.Create(p.path + "." + name) //nolint:gosec // the benchmark's own choice
	if err != nil {
		return err
	}
	if err := pprof.Lookup(name).WriteTo(f, 0); err != nil {
		return errors.Join(fmt.Errorf("meter: write the profile %q: %w", name, err), f.Close())
	}
	return f.Close()
}
