package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// layer is where a value comes from; a higher one wins.
type layer int

const (
	layerDefault layer = iota
	layerFile
	layerEnvironment
	layerCommandLine
)

// envPrefix begins the environment variables of settings.
const envPrefix = "LOVAGE_"

// fileVariable names the file itself; the command reads it.
const fileVariable = envPrefix + "CONFIG"

// celeryVariables are what Celery itself reads.
var celeryVariables = map[string]string{
	"CELERY_BROKER_URL":       "broker_url",
	"CELERY_BROKER_READ_URL":  "broker_read_url",
	"CELERY_BROKER_WRITE_URL": "broker_write_url",
	"CELERY_RESULT_BACKEND":   "result_backend",
}

// sentryVariables are what every Sentry SDK reads.
var sentryVariables = map[string]string{
	"SENTRY_DSN":         "sentry.dsn",
	"SENTRY_ENVIRONMENT": "sentry.environment",
	"SENTRY_RELEASE":     "sentry.release",
}

// kubernetesVariables are what Kubernetes puts into every container of a
// namespace that has a service named "lovage" or "lovage-…".
var kubernetesVariables = regexp.MustCompile(
	`^LOVAGE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// merged stacks the layers with viper and returns the winner for each setting
// of the table; a setting that no layer gives is missing. The keys are whole
// setting names and the values opaque pointers, so that neither viper's folding
// to lower case nor its splitting at dots reaches what the user wrote.
func merged(table []Setting, file, environment, commandLine leaves) leaves {
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00"))
	for _, layer := range []leaves{file, environment} {
		config := make(map[string]any, len(layer))
		for name, value := range layer {
			config[name] = value
		}
		_ = v.MergeConfigMap(config) // always nil
	}
	for name, value := range commandLine {
		v.Set(name, value)
	}
	winners := leaves{}
	for _, s := range table {
		if value, given := v.Get(s.Name).(*raw); given {
			winners[s.Name] = value
		}
	}
	return winners
}

// readEnvironment reads the settings that environ ("NAME=value") gives.
func readEnvironment(environ []string, index index, report *report) leaves {
	found := leaves{}
	var ours []string
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		setting, foreign := celeryVariables[name]
		if !foreign {
			setting, foreign = sentryVariables[name]
		}
		switch {
		case text == "": // counts as not set, as in Celery
		case foreign:
			found.put(index.byName[setting], text, layerEnvironment, variable(name), report)
		case strings.HasPrefix(name, envPrefix):
			ours = append(ours, pair)
		}
	}
	slices.Sort(ours) // the order of an environment means nothing
	for _, pair := range ours {
		name, text, _ := strings.Cut(pair, "=")
		setting, known := index.byEnv[name]
		switch {
		case name == fileVariable: // the command has read it
		case known:
			found.put(index.byName[setting], text, layerEnvironment, variable(name), report)
		case !kubernetesVariables.MatchString(name):
			report.warn("", &raw{layer: layerEnvironment, place: variable(name)}, unknownVariable(name, index))
		}
	}
	return found
}

func variable(name string) string { return "environment variable " + name }

func unknownVariable(name string, index index) string {
	variables := make([]string, 0, len(index.table))
	for _, s := range index.table {
		variables = append(variables, s.Env())
	}
	if near := nearest(name, variables); near != "" {
		return "no setting has this name, the nearest is " + near
	}
	return "no setting has this name"
}

// readOverrides reads what the command line gives.
func readOverrides(given map[string]string, index index, report *report) leaves {
	found := leaves{}
	for name, text := range given {
		setting, known := index.resolve(name)
		if !known {
			report.fail(name, &raw{layer: layerCommandLine, place: commandLine}, index.unknown(name))
			continue
		}
		found.put(index.byName[setting], cast.ReplaceAllString(text, ""), layerCommandLine, commandLine, report)
	}
	return found
}

const commandLine = "command line"

// cast is Celery's type before the value of a pair; the kind of a setting is
// known here without it.
var cast = regexp.MustCompile(`^\((?:string|int|float|any|bool|dict|tuple|list|json)\)`)

// put adds the text of a variable or flag as the YAML value it stands for.
func (l leaves) put(s Setting, text string, layer layer, place string, report *report) {
	value := &raw{layer: layer, place: place}
	node, err := s.fromText(text)
	if err != nil {
		report.fail(s.Name, value, err.Error())
		return
	}
	value.node = node
	l[s.Name] = value
}

// fromText turns the text of a variable or flag into a YAML value: texts are
// taken letter by letter, lists are parted by commas, the rest is YAML.
func (s Setting) fromText(text string) (*yaml.Node, error) {
	trimmed := strings.TrimSpace(text)
	switch trimmed {
	case "null":
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: trimmed}, nil
	case `""`, `''`:
		return stringNode(""), nil
	}
	switch s.Kind {
	case Text, Choice, URL, Address:
		return stringNode(text), nil
	case Bool, Int, Number, Seconds:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: trimmed}, nil
	case Names, Queues, Served:
		if !strings.HasPrefix(trimmed, "[") && !strings.HasPrefix(trimmed, "{") {
			return nameList(trimmed), nil
		}
	case Map, Options, Any: // YAML
	}
	node, err := parseYAML([]byte(text))
	if err == nil && node == nil {
		node = stringNode("")
	}
	return node, err
}

func nameList(text string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for name := range strings.SplitSeq(text, ",") {
		list.Content = append(list.Content, stringNode(strings.TrimSpace(name)))
	}
	return list
}

func stringNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}
