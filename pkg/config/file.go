package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is the longest celery.yaml in bytes. All settings with their comments
// take 20 kB.
const maxFile = 1 << 20

// raw is a value as it was written, with the place where it was found.
type raw struct {
	node  *yaml.Node
	layer layer
	// place is the file's path, the variable or the command line; line is 0
	// outside a file.
	place string
	line  int
}

func (r *raw) origin() string {
	if r.line == 0 {
		return r.place
	}
	return fmt.Sprintf("%s:%d", r.place, r.line)
}

// leaves are the settings that one source gives, by full name.
type leaves map[string]*raw

// readFile reads the bytes of the configuration file.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, &Error{Origin: path, Problem: "can't be read: " + reason(err), Err: err}
	}
	defer file.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, &Error{Origin: path, Problem: "can't be read: " + reason(err), Err: err}
	}
	if len(data) > maxFile {
		return nil, &Error{Origin: path, Problem: fmt.Sprintf("is longer than %d bytes", maxFile)}
	}
	return data, nil
}

// reason is what the system said, without the path that the message has anyway.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// fileReader turns a YAML document into leaves, strictly.
type fileReader struct {
	path   string
	index  index
	leaves leaves
	report *report
}

// parseFile reads data, the content of path. Mistakes go to report.
func parseFile(path string, data []byte, index index, report *report) leaves {
	r := &fileReader{path: path, index: index, leaves: leaves{}, report: report}
	root, err := parseYAML(data)
	switch {
	case err != nil:
		report.fail("", &raw{layer: layerFile, place: path}, "is not YAML: "+err.Error())
	case root != nil:
		r.section("", root)
	}
	return r.leaves
}

// parseYAML parses one document; nil is an empty one.
func parseYAML(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // an empty document is no mistake
	}
	if err != nil {
		return nil, errors.New(unknownAnchor.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "a text that begins with * needs quotes"))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document follows the first")
	}
	return document.Content[0], nil
}

// unknownAnchor is the one message of the parser that quotes the document: a
// token that begins with "*" looks like an alias.
var unknownAnchor = regexp.MustCompile(`(?s)unknown anchor '.*' referenced`)

// section reads a map whose keys are settings or further sections.
func (r *fileReader) section(name string, node *yaml.Node) {
	node = follow(node)
	if isNull(node) {
		return // a section whose settings are all commented out
	}
	if node.Kind != yaml.MappingNode {
		r.fail(name, node, describe(node)+" is not allowed: "+string(Map))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || isMerge(key) {
			r.fail(name, key, "keys must be plain names")
			continue
		}
		r.entry(qualified(name, key.Value), key, value)
	}
}

func (r *fileReader) entry(name string, key, value *yaml.Node) {
	if r.index.isSection(name) {
		r.section(name, value)
		return
	}
	if _, known := r.index.byName[name]; !known {
		r.fail(name, key, r.index.unknown(name))
		return
	}
	if first, twice := r.leaves[name]; twice {
		r.fail(name, key, fmt.Sprintf("is given twice, first in line %d", first.line))
		return
	}
	r.leaves[name] = &raw{node: value, layer: layerFile, place: r.path, line: key.Line}
}

func (r *fileReader) fail(name string, node *yaml.Node, problem string) {
	r.report.fail(name, &raw{layer: layerFile, place: r.path, line: node.Line}, problem)
}

func qualified(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

// follow resolves an alias. The parser has refused aliases of aliases.
func follow(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// isMerge tells the merge key "<<", which would hide where a value comes from.
func isMerge(key *yaml.Node) bool {
	return key.ShortTag() == "!!merge"
}
