package lovage_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const module = "github.com/lovage-project/lovage/"

// mayImport is the table of docs/architecture.md: what each package may import of
// ours. A subpackage follows its parent unless it has a row of its own. "*" is
// everything.
var mayImport = map[string][]string{
	"pkg/protocol":         {},
	"pkg/acks":             {},
	"pkg/broker":           {"pkg/internal/kubemqwire"},
	"pkg/config":           {},
	"pkg/internal":         {},
	"pkg/transport":        {"pkg/protocol"},
	"pkg/transport/kubemq": {"pkg/transport", "pkg/protocol", "pkg/internal/kubemqwire", "pkg/internal/pause"},
	"pkg/tasks":            {"pkg/protocol", "pkg/acks"},
	"pkg/tasks/onceresult": {"pkg/tasks", "pkg/protocol", "pkg/results"},
	"pkg/tasks/gocelery":   {"pkg/tasks", "pkg/protocol", "pkg/transport", "pkg/results"},
	"pkg/results":          {"pkg/protocol", "pkg/transport", "pkg/internal/pause"},
	"pkg/rayserve":         {"pkg/protocol", "pkg/results", "pkg/transport"},
	"pkg/canvas":           {"pkg/protocol", "pkg/tasks", "pkg/results", "pkg/transport"},
	"pkg/remote":           {"pkg/protocol", "pkg/transport"},
	"pkg/worker":           {"pkg/protocol", "pkg/transport", "pkg/acks", "pkg/tasks", "pkg/results", "pkg/canvas", "pkg/remote", "pkg/internal/pause"},
	"pkg/observe":          {"pkg/tasks", "pkg/worker", "pkg/protocol", "pkg/transport"},
	"pkg/command":          {"*"},
	"cmd":                  {"pkg/command", "pkg/tasks", "examples"},
	"bench":                {"pkg/broker", "pkg/command", "pkg/tasks", "pkg/protocol", "pkg/transport", "pkg/results"},
	"examples":             {"pkg/command", "pkg/tasks", "pkg/protocol"},
	"examples/rayserve":    {"pkg/command", "pkg/tasks", "pkg/rayserve", "pkg/transport"},
	"interop":              {"pkg/command", "pkg/tasks", "pkg/protocol", "pkg/broker", "pkg/transport"},
}

// onlyIn are imports that one package keeps to itself.
var onlyIn = map[string][]string{
	"os/signal":                         {"pkg/command", "bench", "interop"},
	"github.com/spf13/cobra":            {"pkg/command"},
	"go.uber.org/zap":                   {"pkg/observe", "pkg/command"},
	"github.com/getsentry/sentry-go":    {"pkg/observe", "pkg/command"},
	"github.com/spf13/viper":            {"pkg/config"},
	"github.com/cockroachdb/pebble/v2":  {"pkg/broker"},
	"go.etcd.io/bbolt":                  {"pkg/tasks/oncebolt"},
	"github.com/kubemq-io/protobuf/go":  {"pkg/broker", "pkg/transport/kubemq", "pkg/results/kubemq", "pkg/rayserve", "pkg/internal/kubemqwire", "bench"},
	"github.com/gocelery/gocelery":      {"pkg/tasks/gocelery"},
	"github.com/vmihailenco/msgpack/v5": {"pkg/protocol"},
	"log":                               {},
}

type listed struct {
	ImportPath   string   `json:"ImportPath"`
	Dir          string   `json:"Dir"`
	Imports      []string `json:"Imports"`
	TestGoFiles  []string `json:"TestGoFiles"`
	XTestGoFiles []string `json:"XTestGoFiles"`
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Imports,TestGoFiles,XTestGoFiles", "./...").Output()
	require.NoError(t, err)
	var all []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, p)
	}
}

func TestImportsFollowTheTable(t *testing.T) {
	checked := 0
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if name+"/" == module {
			continue // this file's own package
		}
		row, allowed := rowOf(name)
		require.NotEmpty(t, row, "package %s has no row in the table", name)
		for _, imported := range p.Imports {
			if ours, ok := strings.CutPrefix(imported, module); ok {
				require.True(t, within(ours, append(allowed, row)), "%s may not import %s", name, ours)
				checked++
			}
			if keepers, kept := onlyIn[imported]; kept {
				require.True(t, within(name, keepers), "%s may not import %s", name, imported)
			}
		}
	}
	require.Greater(t, checked, 30, "the test looked at something")
}

// rowOf is the longest row that names the package or a parent of it.
func rowOf(name string) (row string, allowed []string) {
	for candidate, imports := range mayImport {
		if (name == candidate || strings.HasPrefix(name, candidate+"/")) && len(candidate) > len(row) {
			row, allowed = candidate, imports
		}
	}
	return row, allowed
}

func within(name string, parents []string) bool {
	for _, parent := range parents {
		if parent == "*" || name == parent || strings.HasPrefix(name, parent+"/") {
			return true
		}
	}
	return false
}

// TestEveryPackageChecksForLeaks: a package with tests has goleak in its TestMain.
func TestEveryPackageChecksForLeaks(t *testing.T) {
	for _, p := range packages(t) {
		files := slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		if len(files) == 0 {
			continue
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "goleak.VerifyTestMain")
		}
		require.True(t, found, "%s has tests but no goleak in TestMain", p.ImportPath)
	}
}
