package lovage_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRayServesDifferencesAreTested: what docs/rayserve.md says to differ on purpose
// names tests that exist.
func TestRayServesDifferencesAreTested(t *testing.T) {
	guide, err := os.ReadFile("docs/rayserve.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(guide), "## What differs on purpose")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	var tests strings.Builder
	for _, pattern := range []string{"pkg/*/*_test.go", "pkg/*/rayserve/*_test.go", "interop/tests/test_rayserve_*.py"} {
		tests.WriteString(sources(t, pattern))
	}
	name := regexp.MustCompile("`([Tt]est[A-Z_]\\w+)`")
	rows := strings.Split(strings.TrimSpace(table), "\n")[2:]
	require.Greater(t, len(rows), 15)
	for _, row := range rows {
		named := name.FindAllStringSubmatch(row, -1)
		require.NotEmpty(t, named, row)
		for _, one := range named {
			require.Regexp(t, "(func|def) "+one[1]+`\(`, tests.String(), row)
		}
	}
}
