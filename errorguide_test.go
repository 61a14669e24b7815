package lovage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheGuidesProgramsAreExamples: every Go block of a guide is part of a program that
// compiles and is tested.
func TestTheGuidesProgramsAreExamples(t *testing.T) {
	for guide, c := range map[string]struct {
		examples []string
		blocks   int
	}{
		"docs/error-handling.md": {[]string{"examples/errorhandling/*.go"}, 9},
		"docs/rayserve.md":       {[]string{"examples/rayserve/*.go", "examples/rayserve/client/*.go"}, 7},
	} {
		var program strings.Builder
		for _, pattern := range c.examples {
			program.WriteString(sources(t, pattern))
		}
		text, err := os.ReadFile(guide)
		require.NoError(t, err)
		blocks := strings.Split(string(text), "```go\n")[1:]
		require.GreaterOrEqual(t, len(blocks), c.blocks, guide)
		for _, block := range blocks {
			code, _, closed := strings.Cut(block, "```")
			require.True(t, closed)
			require.Contains(t, program.String(), unindented(code), "a block of %s is in no example", guide)
		}
	}
}

// sources are the files of a pattern, one after the other.
func sources(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.WriteString(unindented(string(text)))
	}
	return all.String()
}

// unindented lets a block stand for lines inside a function.
func unindented(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
