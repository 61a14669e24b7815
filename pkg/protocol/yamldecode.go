package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlPrefix is what "!!" stands for.
const yamlPrefix = "tag:yaml.org,2002:"

// decodeYAML reads one YAML document as PyYAML's safe_load does. The library
// splits the text into nodes; what a node means follows YAML 1.1 and PyYAML, which
// differ from the library's own rules: "yes" is true, 0o7 is a string, 1:30 is
// 90, 1e5 is a string.
//
// Keys that are not strings are written as Python's json writes them, so that
// {1: "a"} is what the json serializer would have sent. A set and the pairs of an
// ordered map become lists.
func decodeYAML(data []byte, limits Limits) (any, error) {
	v, err := parseYAML(data, limits)
	if err != nil {
		return nil, &DecodeError{What: "yaml", Err: err}
	}
	return v, nil
}

// yamlNodeCost is how many times the memory of a value the parser takes for a
// node. It makes all nodes before the first can be counted.
const yamlNodeCost = 10

// yamlMarks counts the characters after which a node may begin; there are at most
// three nodes for each.
func yamlMarks(data []byte) int {
	marks := 1
	for _, c := range data {
		switch c {
		case '\n', '\r', ',', ':', '?', '-', '[', '{':
			marks++
		}
	}
	return marks
}

func parseYAML(data []byte, limits Limits) (v any, err error) {
	// The parser is written with panics, and recovers those that it knows.
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("parser failed: %v", r)
		}
	}()
	if yamlMarks(data) > limits.Items/yamlNodeCost {
		return nil, &LimitError{What: "marks of structure in yaml", Limit: limits.Items / yamlNodeCost}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	// Aliases make a small document large: ten values a byte is far more than any
	// honest document has, and bounds a bomb by its own size.
	limits.Items = min(limits.Items, 10*len(data)+1000)
	d := yamlDecoder{budget{limits: limits}}
	return d.value(&document)
}

type yamlDecoder struct{ budget }

func (d *yamlDecoder) value(n *yaml.Node) (any, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	switch n.Kind {
	case yaml.AliasNode:
		return d.value(n.Alias)
	case yaml.DocumentNode:
		return d.value(n.Content[0])
	default:
		return d.content(n)
	}
}

func (d *yamlDecoder) content(n *yaml.Node) (any, error) {
	if err := d.item(); err != nil {
		return nil, err
	}
	switch tag := yamlTag(n); n.Kind {
	case yaml.ScalarNode:
		return yamlScalar(tag, n.Value)
	case yaml.SequenceNode:
		return d.sequence(tag, n)
	case yaml.MappingNode:
		return d.mapping(tag, n)
	default:
		return nil, fmt.Errorf("unknown kind of node %d", n.Kind)
	}
}

// yamlTag is the tag that a node has or that its text implies, without the
// prefix of YAML's own tags.
func yamlTag(n *yaml.Node) string {
	if n.Style&yaml.TaggedStyle != 0 {
		return strings.TrimPrefix(n.LongTag(), yamlPrefix)
	}
	switch {
	case n.Kind == yaml.SequenceNode:
		return "seq"
	case n.Kind == yaml.MappingNode:
		return "map"
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return "str"
	}
	return resolveYAML(n.Value)
}

func (d *yamlDecoder) sequence(tag string, n *yaml.Node) (any, error) {
	switch tag {
	case "seq":
	case "omap", "pairs":
		return d.pairs(n)
	default:
		return nil, errYAMLTag(tag)
	}
	list := []any{}
	for _, item := range n.Content {
		v, err := d.value(item)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// pairs reads a list of maps with one key each.
func (d *yamlDecoder) pairs(n *yaml.Node) (any, error) {
	list := []any{}
	for _, item := range n.Content {
		if item.Kind != yaml.MappingNode || len(item.Content) != 2 {
			return nil, errors.New("expected a mapping of length 1")
		}
		key, err := d.value(item.Content[0])
		if err != nil {
			return nil, err
		}
		v, err := d.value(item.Content[1])
		if err != nil {
			return nil, err
		}
		list = append(list, []any{key, v})
	}
	return list, nil
}

func (d *yamlDecoder) mapping(tag string, n *yaml.Node) (any, error) {
	if tag != "map" && tag != "set" {
		return nil, errYAMLTag(tag)
	}
	if err := d.spend(mapCost); err != nil {
		return nil, err
	}
	m := map[string]any{}
	keys, err := d.addPairs(m, n)
	if err != nil || tag == "map" {
		return m, err
	}
	return keys, nil
}

// addPairs adds the pairs of a mapping to m, those merged by "<<" first, so that
// its own replace them. It returns the keys of its own as they are.
func (d *yamlDecoder) addPairs(m map[string]any, n *yaml.Node) ([]any, error) {
	keys := []any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if yamlTag(n.Content[i]) == "merge" {
			if err := d.merge(m, n.Content[i+1]); err != nil {
				return nil, err
			}
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if yamlTag(n.Content[i]) == "merge" {
			continue
		}
		key, err := d.key(n.Content[i])
		if err != nil {
			return nil, err
		}
		text, err := yamlKeyText(key)
		if err != nil {
			return nil, err
		}
		if m[text], err = d.value(n.Content[i+1]); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// key reads a key; "=" stands for itself there and for nothing elsewhere.
func (d *yamlDecoder) key(n *yaml.Node) (any, error) {
	if n.Kind == yaml.ScalarNode && yamlTag(n) == "value" {
		return n.Value, nil
	}
	return d.value(n)
}

// merge adds the pairs of a mapping, or of each of a list of mappings, the later
// ones first: of two that have a key, the earlier one's value counts.
func (d *yamlDecoder) merge(m map[string]any, n *yaml.Node) error {
	// Merges of merges multiply without a value in them.
	if err := d.item(); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	switch n.Kind {
	case yaml.AliasNode:
		return d.merge(m, n.Alias)
	case yaml.MappingNode:
		_, err := d.addPairs(m, n)
		return err
	case yaml.SequenceNode:
		for i := len(n.Content) - 1; i >= 0; i-- {
			item := n.Content[i]
			if item.Kind == yaml.AliasNode {
				item = item.Alias
			}
			if item.Kind != yaml.MappingNode {
				return errors.New("expected a mapping for merging")
			}
			if err := d.merge(m, item); err != nil {
				return err
			}
		}
		return nil
	default:
		return errors.New("expected a mapping or list of mappings for merging")
	}
}

// yamlKeyText writes a key as Python's json writes it.
func yamlKeyText(key any) (string, error) {
	switch key := key.(type) {
	case string:
		return key, nil
	case nil, bool, int64, *big.Int, float64:
		text, err := EncodeJSON(key)
		return string(text), err
	}
	return "", fmt.Errorf("a key of type %s", pythonType(key))
}

func errYAMLTag(tag string) error {
	return fmt.Errorf("could not determine a constructor for the tag %q", cut(tag))
}
