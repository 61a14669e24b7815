package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// value is the effective value of a setting.
type value struct {
	// name is the setting's or option's name as it was written.
	name    string
	decoded any
	// source is where it was given; nil for a default.
	source *raw
}

// values are the effective values.
type values struct {
	settings map[string]value
	// options holds the options of each connection (broker_transport_options),
	// by the setting that each stands for.
	options map[string]map[string]value
	// served is the list of queues that says which protocol each one has; nil if
	// none does. A list of names may stand above it.
	served *raw
}

// decodeAll decodes what the sources give and fills in the defaults.
func decodeAll(index index, given leaves, report *report) *values {
	all := &values{settings: map[string]value{}, options: map[string]map[string]value{}}
	for _, s := range index.table {
		source := given[s.Name]
		if source == nil {
			all.settings[s.Name] = value{name: s.Name, decoded: s.defaultValue()}
			continue
		}
		decoded, err := s.decode(source.node)
		if err != nil {
			report.fail(s.Name, source, err.Error())
			continue
		}
		all.settings[s.Name] = value{name: s.Name, decoded: decoded, source: source}
		if s.Kind == Options {
			all.options[s.Name] = decodeOptions(s, source, report)
			continue
		}
		warnUnsupported(s, s.Name, source, report)
	}
	return all
}

// defaultValue decodes the default. TestTableIsSound holds that each one decodes.
func (s Setting) defaultValue() any {
	if s.Default == "" {
		return nil
	}
	node, err := parseYAML([]byte(s.Default))
	if err != nil {
		return nil
	}
	decoded, _ := s.decode(node)
	return decoded
}

// decodeOptions checks the keys of a connection's options against the table of
// those that are known.
func decodeOptions(s Setting, source *raw, report *report) map[string]value {
	node := follow(source.node)
	options := map[string]value{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := follow(node.Content[i])
		at := *source
		at.node = node.Content[i+1]
		if source.line > 0 {
			at.line = key.Line
		}
		full := s.Name + "." + key.Value
		field, known := findField(s.Fields, key.Value)
		if !known {
			report.fail(full, &at, unknownOption(s.Fields, key.Value))
			continue
		}
		decoded, err := field.decode(at.node)
		if err != nil {
			report.fail(full, &at, err.Error())
			continue
		}
		warnUnsupported(field, full, &at, report)
		if field.For != "" && decoded != nil {
			options[field.For] = value{name: full, decoded: decoded, source: &at}
		}
	}
	return options
}

func findField(fields []Setting, name string) (Setting, bool) {
	for _, field := range fields {
		if field.Name == name {
			return field, true
		}
	}
	return Setting{}, false
}

func unknownOption(fields []Setting, name string) string {
	names := make([]string, 0, len(fields))
	for _, field := range fields {
		names = append(names, field.Name)
	}
	if near := nearest(name, names); near != "" {
		return "unknown option, the nearest is " + near
	}
	return "unknown option"
}

// warnUnsupported warns of a setting that has no effect, unless it asks for what
// the worker does anyway.
func warnUnsupported(s Setting, name string, source *raw, report *report) {
	if s.Support == Supported || s.asksNothing(source.node) {
		return
	}
	report.warn(name, source, fmt.Sprintf("%s: %s", s.Support, s.Note))
}

func (s Setting) asksNothing(node *yaml.Node) bool {
	node = follow(node)
	if isNull(node) {
		return true
	}
	if s.Quiet == "" || node.Kind != yaml.ScalarNode {
		return false
	}
	quiet, err := parseYAML([]byte(s.Quiet))
	if err != nil {
		return false
	}
	asked, errAsked := s.decode(node)
	wanted, errWanted := s.decode(quiet)
	return errAsked == nil && errWanted == nil && asked == wanted
}

// get returns the decoded value of a setting, or the zero value for null.
func get[T any](v *values, name string) T {
	return as[T](v.settings[name])
}

// as returns the decoded value; decode holds its type, so only null is no T and
// gives the zero value.
func as[T any](v value) T {
	decoded, _ := v.decoded.(T)
	return decoded
}
