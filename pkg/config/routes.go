package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Route is an entry of task_routes: which options the tasks of a name, or of a
// glob, get.
type Route struct {
	// Task is the name or glob, letter by letter.
	Task string
	// Options are those of apply_async; a route that is a text is the option queue.
	Options map[string]any
}

// routes reads task_routes in the forms that a Python configuration can have in
// YAML: a map, or a list of maps and of lists of pairs. The order is kept, because
// the first glob that fits wins.
func (b *builder) routes() [][]Route {
	setting := b.values.settings["task_routes"]
	if setting.decoded == nil {
		return nil
	}
	node := follow(setting.source.node)
	maps := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		maps = node.Content
	}
	routes := make([][]Route, 0, len(maps))
	for _, item := range maps {
		entries, err := routeMap(follow(item))
		if err != nil {
			b.fail(setting, err.Error())
			return nil
		}
		routes = append(routes, entries)
	}
	return routes
}

func routeMap(node *yaml.Node) ([]Route, error) {
	pairs := node.Content
	switch node.Kind {
	case yaml.MappingNode:
	case yaml.SequenceNode:
		pairs = nil
		for _, item := range node.Content {
			if item = follow(item); item.Kind != yaml.SequenceNode || len(item.Content) != 2 {
				return nil, fmt.Errorf("%s in a list of routes is not allowed: a pair [task, route]", describe(item))
			}
			pairs = append(pairs, item.Content...)
		}
	default:
		return nil, fmt.Errorf("%s is not allowed: a map of tasks to queues, or a list of such maps%s", describe(node), routerHint(node))
	}
	entries := make([]Route, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		entry, err := route(follow(pairs[i]), follow(pairs[i+1]))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// routerHint is for the Python name of a router class or function.
func routerHint(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode && !isNull(node) {
		return " (only Python can call a router)"
	}
	return ""
}

func route(task, to *yaml.Node) (Route, error) {
	if task.Kind != yaml.ScalarNode {
		return Route{}, fmt.Errorf("%s is not allowed: a task's name or a glob", describe(task))
	}
	switch {
	case to.Kind == yaml.MappingNode:
		options, err := generic(to)
		values, _ := options.(map[string]any)
		return Route{Task: task.Value, Options: values}, err
	case to.Kind == yaml.ScalarNode && to.ShortTag() == "!!str" && to.Value != "":
		return Route{Task: task.Value, Options: map[string]any{"queue": to.Value}}, nil
	}
	return Route{}, fmt.Errorf("%s for %s is not allowed: a queue, or a map of options such as {queue: …}%s",
		describe(to), quoted(task.Value), quotesHint(to))
}
