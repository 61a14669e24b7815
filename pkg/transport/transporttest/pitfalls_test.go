package transporttest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pitfallLine is a line of the table in doc.go.
var pitfallLine = regexp.MustCompile(`(?m)^//\t(T-K\d+) +[^:]+: (.+)$`)

// TestPitfallsHaveTheirTests holds the table in doc.go against the tests: each number
// is there, each test it names exists and bears the number, and no other does.
func TestPitfallsHaveTheirTests(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	want := make(map[string][]string)
	for _, line := range pitfallLine.FindAllStringSubmatch(string(doc), -1) {
		tests, _, _ := strings.Cut(line[2], ", a figure")
		want[line[1]] = strings.Split(tests, ", ")
	}
	require.Len(t, want, 10)
	marked := markedTests(t)
	require.Len(t, marked, len(want))
	for number, tests := range want {
		require.ElementsMatch(t, tests, marked[number], number)
	}
}

// markedTests finds the functions whose comments bear a number.
func markedTests(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	tests, err := filepath.Glob("../kubemq/*_test.go")
	require.NoError(t, err)
	number := regexp.MustCompile(`T-K\d+`)
	marked := make(map[string][]string)
	for _, path := range append(files, tests...) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			for _, found := range number.FindAllString(function.Doc.Text(), -1) {
				marked[found] = append(marked[found], function.Name.Name)
			}
		}
	}
	return marked
}
