package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
)

// peerModules are the modules of the Go peers.
var peerModules = map[string]string{ //nolint:gochecknoglobals // a table
	"github.com/hibiken/asynq":     "asynq",
	"github.com/gocelery/gocelery": "gocelery",
}

// versions are those of what is measured.
func (p programs) versions(ctx context.Context) ([]string, error) {
	versions := []string{runtime.Version()}
	for _, command := range [][]string{{"Celery", p.celery, "--version"}, {"", p.redis, "--version"}} {
		out, err := exec.CommandContext(ctx, command[1], command[2:]...).Output() //nolint:gosec // the benchmark's own programs
		if err != nil {
			return nil, fmt.Errorf("ask %s for its version: %w", command[1], err)
		}
		versions = append(versions, versionIn(command[0], string(out)))
	}
	for _, path := range []string{p.asynq, p.gocelery} {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, module := range info.Deps {
			if name, ok := peerModules[module.Path]; ok {
				versions = append(versions, name+" "+module.Version)
			}
		}
	}
	return versions, nil
}

// versionIn shortens what a program says: Celery "5.7.0 (name)", Redis "Redis server
// v=7.0.15 sha=…".
func versionIn(name, text string) string {
	if _, after, ok := strings.Cut(text, "v="); ok {
		name, text = "Redis", after
	}
	version, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return name + " " + version
}
