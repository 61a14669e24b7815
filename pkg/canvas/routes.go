package canvas

import (
	"regexp"
	"strings"
)

// Route gives the tasks of a name, or of all names that fit a glob, options for
// apply_async: a queue in most cases.
type Route struct {
	// Task is a name, or a glob if it has a "*" in it: then "?" and "[a-z]", "[!a-z]"
	// have a meaning too.
	Task string
	// Options are what the signature doesn't say itself.
	Options map[string]any
}

// Routes are Celery's task_routes: maps that are asked one after the other. In a
// map the name itself comes before the globs, and these come in their order.
type Routes []routeMap

type routeMap struct {
	names map[string]options
	globs []glob
}

type glob struct {
	names   *regexp.Regexp
	options options
}

// NewRoutes makes Routes of the entries of each map.
func NewRoutes(maps [][]Route) Routes {
	routes := make(Routes, 0, len(maps))
	for _, entries := range maps {
		m := routeMap{names: map[string]options{}}
		for _, entry := range entries {
			if strings.Contains(entry.Task, "*") {
				m.globs = append(m.globs, glob{names: fnmatch(entry.Task), options: entry.Options})
			} else {
				m.names[entry.Task] = entry.Options
			}
		}
		routes = append(routes, m)
	}
	return routes
}

// route lays the route of a task under its options: what the signature says wins.
func (r Routes) route(task string, o options) options {
	for _, m := range r {
		if found, ok := m.find(task); ok {
			return underlay(found, o)
		}
	}
	return o
}

func (m routeMap) find(task string) (options, bool) {
	if found, ok := m.names[task]; ok {
		return found, true
	}
	for _, glob := range m.globs {
		if glob.names.MatchString(task) {
			return glob.options, true
		}
	}
	return nil, false
}

// class finds the classes of characters of a glob.
var class = regexp.MustCompile(`\[!?\]?[^\]]*\]`)

// fnmatch is Python's fnmatch: "*" is any text, "?" any character, "[…]" one of
// these and "[!…]" one that is none of them.
func fnmatch(pattern string) *regexp.Regexp {
	var expression strings.Builder
	for rest := pattern; rest != ""; {
		where := class.FindStringIndex(rest)
		if where == nil {
			where = []int{len(rest), len(rest)}
		}
		plain := regexp.QuoteMeta(rest[:where[0]])
		expression.WriteString(strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(plain))
		expression.WriteString(classOf(rest[where[0]:where[1]]))
		rest = rest[where[1]:]
	}
	names, err := regexp.Compile(`(?s)\A(?:` + expression.String() + `)\z`)
	if err != nil { // a class such as [z-a], which fits nothing
		return regexp.MustCompile(`\A\z.`)
	}
	return names
}

// classOf is a class as a regular expression has it.
func classOf(class string) string {
	if class == "" {
		return ""
	}
	inside := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(class[1 : len(class)-1])
	if negated, ok := strings.CutPrefix(inside, "!"); ok {
		return "[^" + negated + "]"
	}
	return "[" + inside + "]"
}
