package lovage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheGuidesProgramsAreExamples: every Go block of the guide to error handling is
// part of a program that compiles and is tested.
func TestTheGuidesProgramsAreExamples(t *testing.T) {
	guide, err := os.ReadFile("docs/error-handling.md")
	require.NoError(t, err)
	files, err := filepath.Glob("examples/errorhandling/*.go")
	require.NoError(t, err)
	var program strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		program.WriteString(unindented(string(text)))
	}
	blocks := strings.Split(string(guide), "```go\n")[1:]
	require.Greater(t, len(blocks), 8)
	for _, block := range blocks {
		code, _, closed := strings.Cut(block, "```")
		require.True(t, closed)
		require.Contains(t, program.String(), unindented(code), "a block of docs/error-handling.md is in no example")
	}
}

// unindented lets a block stand for lines inside a function.
func unindented(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
