package config

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// decodeQueues reads task_queues in the forms that a Python configuration can
// have in YAML: names, maps with a name, or a map keyed by name. Exchanges,
// routing keys and arguments of queues come with RabbitMQ and are passed over.
func decodeQueues(node *yaml.Node) (any, error) {
	var names []*yaml.Node
	switch node.Kind {
	case yaml.SequenceNode:
		for _, item := range node.Content {
			names = append(names, queueName(follow(item)))
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			names = append(names, node.Content[i])
		}
	default:
		return nil, fmt.Errorf("%s is not allowed: %s", describe(node), Queues)
	}
	if len(names) == 0 {
		return nil, errors.New("an empty list is not allowed: at least one queue")
	}
	return uniqueNames(names)
}

// queueName is the name of an item of a list of queues: the item, or what its
// key "name" holds.
func queueName(item *yaml.Node) *yaml.Node {
	if item.Kind != yaml.MappingNode {
		return item
	}
	for i := 0; i+1 < len(item.Content); i += 2 {
		if item.Content[i].Value == "name" {
			return follow(item.Content[i+1])
		}
	}
	return item
}

func uniqueNames(nodes []*yaml.Node) ([]string, error) {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" || node.Value == "" {
			return nil, fmt.Errorf("%s in the list is not allowed: a queue's name%s", describe(node), quotesHint(node))
		}
		if slices.Contains(names, node.Value) {
			return nil, fmt.Errorf("queue %s is named twice", quoted(node.Value))
		}
		names = append(names, node.Value)
	}
	return names, nil
}

// queues are those of task_queues and of the maps in queues, or the default queue,
// narrowed by -Q and -X.
func (b *builder) queues(entries []queueEntry) []string {
	known := get[[]string](b.values, "task_queues")
	for _, entry := range entries {
		if !slices.Contains(known, entry.name) {
			known = append(known[:len(known):len(known)], entry.name)
		}
	}
	if known == nil {
		known = []string{get[string](b.values, "task_default_queue")}
	}
	chosen := known
	wanted := b.values.settings["queues"]
	if names := as[[]string](wanted); len(names) > 0 && wanted.source != b.values.served {
		chosen = names
		for _, name := range chosen {
			if !slices.Contains(known, name) && !get[bool](b.values, "task_create_missing_queues") {
				b.fail(wanted, quoted(name)+" is not in task_queues, and task_create_missing_queues is false")
			}
		}
	}
	excluded := get[[]string](b.values, "exclude_queues")
	var left []string
	for _, name := range chosen {
		if !slices.Contains(excluded, name) && !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		b.fail(b.values.settings["exclude_queues"], "leaves no queue to consume")
	}
	return left
}
