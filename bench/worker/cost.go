package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the processor times in /proc/<pid>/stat. It is the same on every
// Linux that Go runs on.
const tick = 10 * time.Millisecond

// cost is what a process and its children have used: processor time so far, and
// memory now.
type cost struct {
	cpu    time.Duration
	memory int64
}

// cost reads what the process and its children have used. Memory that several share
// is divided among them.
func (p *process) cost() (cost, error) {
	family, err := familyOf(p.command.Process.Pid)
	if err != nil {
		return cost{}, err
	}
	total := cost{}
	for _, member := range family {
		total.cpu += member.cpu
		memory, err := memoryOf(member.pid)
		if err != nil && !os.IsNotExist(err) { // a child may end meanwhile
			return cost{}, err
		}
		total.memory += memory
	}
	return total, nil
}

// stat is a line of /proc/<pid>/stat.
type stat struct {
	pid, parent int
	state       string
	cpu         time.Duration
}

// familyOf finds a process and its descendants.
func familyOf(pid int) ([]stat, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]stat)
	var family []stat
	for _, path := range paths {
		text, err := os.ReadFile(path) //nolint:gosec // a path of the kernel's
		if err != nil {
			continue // it has ended
		}
		one, err := parseStat(string(text))
		if err != nil {
			return nil, err
		}
		if one.pid == pid {
			family = append(family, one)
		}
		children[one.parent] = append(children[one.parent], one)
	}
	for i := 0; i < len(family); i++ {
		family = append(family, children[family[i].pid]...)
	}
	return family, nil
}

// parseStat reads the line; the name in it may hold blanks and parentheses.
func parseStat(text string) (stat, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("stat %q: it has no name", text)
	}
	fields := strings.Fields(text[end+1:])
	const parent, userTime, systemTime = 1, 11, 12 // counted from the state, which follows the name
	if len(fields) <= systemTime {
		return stat{}, fmt.Errorf("stat %q: it has %d fields", text, len(fields))
	}
	numbers := [4]int{}
	for i, field := range []string{strings.TrimSpace(text[:open]), fields[parent], fields[userTime], fields[systemTime]} {
		var err error
		if numbers[i], err = strconv.Atoi(field); err != nil {
			return stat{}, fmt.Errorf("stat %q: %w", text, err)
		}
	}
	return stat{
		pid: numbers[0], parent: numbers[1], state: fields[0],
		cpu: time.Duration(numbers[2]+numbers[3]) * tick,
	}, nil
}

func isZombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	one, err := parseStat(string(text))
	return err != nil || one.state == "Z"
}

// memoryOf is the memory of a process that is in RAM, its part of what it shares.
func memoryOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("the kernel reports no memory of process %d", pid)
}
