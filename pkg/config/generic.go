package config

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Bounds of a free-form value. Aliases can make a small file stand for an
// endless value, so what they stand for is counted.
const (
	maxValues = 100_000
	maxDepth  = 64
)

// generic converts a value whose shape is the user's: maps keyed by task or
// queue names keep their keys letter by letter.
func generic(node *yaml.Node) (any, error) {
	c := &converter{left: maxValues}
	return c.convert(node, 0)
}

type converter struct{ left int }

func (c *converter) convert(node *yaml.Node, depth int) (any, error) {
	c.left--
	if c.left < 0 {
		return nil, fmt.Errorf("holds more than %d values", maxValues)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	node = follow(node)
	switch node.Kind {
	case yaml.MappingNode:
		return c.mapping(node, depth)
	case yaml.SequenceNode:
		return c.list(node, depth)
	default:
		return scalar(node)
	}
}

func (c *converter) mapping(node *yaml.Node, depth int) (any, error) {
	values := make(map[string]any, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := follow(node.Content[i])
		if key.Kind != yaml.ScalarNode || isMerge(key) {
			return nil, fmt.Errorf("has a key in line %d that is not a plain name", key.Line)
		}
		if _, twice := values[key.Value]; twice {
			return nil, fmt.Errorf("has the key %s twice, again in line %d", quoted(key.Value), key.Line)
		}
		value, err := c.convert(node.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		values[key.Value] = value
	}
	return values, nil
}

func (c *converter) list(node *yaml.Node, depth int) (any, error) {
	values := make([]any, 0, len(node.Content))
	for _, item := range node.Content {
		value, err := c.convert(item, depth+1)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

// scalar keeps as text what YAML would turn into something that has no place in
// a setting, such as a date.
func scalar(node *yaml.Node) (any, error) {
	switch node.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float":
		var value any
		if err := node.Decode(&value); err != nil {
			return nil, errors.New("holds " + describe(node) + ", which is no value")
		}
		return value, nil
	default:
		return node.Value, nil
	}
}
