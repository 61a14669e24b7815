package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// The protocols of a queue.
const (
	protocolCelery   = "celery"
	protocolRayServe = "rayserve"
)

// queueEntry is an entry of queues: a queue, and what is said of it.
type queueEntry struct {
	name string
	// fields are what its map gives, by key; nil for a name alone.
	fields map[string]value
}

// entryFields are the keys of a map in queues.
func entryFields() []Setting {
	return append([]Setting{
		{Name: "name", Kind: Text},
		{Name: "protocol", Kind: Choice, Choices: []string{protocolCelery, protocolRayServe}, Default: protocolCelery},
	}, rayServeFields()...)
}

// decodeServed reads the names in queues. What the maps say besides is read by
// entries: a list of names from the command line may stand above the maps.
func (s Setting) decodeServed(node *yaml.Node) (any, error) {
	if !hasMaps(node) {
		return s.decodeNames(node)
	}
	names := make([]*yaml.Node, len(node.Content))
	for i, item := range node.Content {
		names[i] = queueName(follow(item))
		if names[i].Kind == yaml.MappingNode {
			return nil, fmt.Errorf("the map in line %d has no name", names[i].Line)
		}
	}
	return uniqueNames(names)
}

func hasMaps(node *yaml.Node) bool {
	return node.Kind == yaml.SequenceNode && slices.ContainsFunc(node.Content, func(item *yaml.Node) bool {
		return follow(item).Kind == yaml.MappingNode
	})
}

// highestWithMaps is the queues with maps that stands in the highest of the layers,
// which are given from the top. Names in a higher layer choose among them.
func highestWithMaps(layers ...leaves) *raw {
	for _, layer := range layers {
		if source := layer["queues"]; source != nil && hasMaps(follow(source.node)) {
			return source
		}
	}
	return nil
}

// entries are the queues of the list that has maps; none if there is no such list.
func (b *builder) entries() []queueEntry {
	if b.values.served == nil {
		return nil
	}
	items := follow(b.values.served.node).Content
	entries := make([]queueEntry, 0, len(items))
	for _, item := range items {
		item = follow(item)
		entry := queueEntry{name: queueName(item).Value}
		if item.Kind == yaml.MappingNode {
			entry.fields = b.entryFields(entry.name, item)
		}
		entries = append(entries, entry)
	}
	return entries
}

// entryFields decodes what a map in queues gives.
func (b *builder) entryFields(queue string, node *yaml.Node) map[string]value {
	known, fields := entryFields(), map[string]value{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := follow(node.Content[i])
		at := *b.values.served
		at.node = node.Content[i+1]
		if at.line > 0 {
			at.line = key.Line
		}
		given := value{name: fmt.Sprintf("queues.%s.%s", shortened(queue), key.Value), source: &at}
		field, found := findField(known, key.Value)
		_, twice := fields[key.Value]
		switch {
		case !found:
			b.fail(given, unknownOption(known, key.Value))
			continue
		case twice:
			b.fail(given, "is given twice")
			continue
		}
		var err error
		if given.decoded, err = field.decode(at.node); err != nil {
			b.fail(given, err.Error())
			continue
		}
		fields[key.Value] = given
	}
	return fields
}
