package lovage_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadmeProgramIsTheExample: the program in the README is one that compiles.
func TestReadmeProgramIsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("examples/order/main.go")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	code, _, found = strings.Cut(code, "```")
	require.True(t, found)
	require.True(t, strings.HasSuffix(string(example), code), "README.md and examples/order/main.go differ")
}

// TestReadmeNamesWhatIsThere: files that the README links to exist.
func TestReadmeNamesWhatIsThere(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	links := 0
	for _, part := range strings.Split(string(readme), "](")[1:] {
		target, _, _ := strings.Cut(part, ")")
		if strings.HasPrefix(target, "http") {
			continue
		}
		_, err := os.Stat(target)
		require.NoError(t, err)
		links++
	}
	require.Greater(t, links, 5)
}
