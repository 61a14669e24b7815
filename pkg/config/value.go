package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decode turns a node into the Go value of the setting's kind: bool, int,
// float64, time.Duration, string, []string, map[string]any or anything; nil for
// null. The error says what is allowed.
func (s Setting) decode(node *yaml.Node) (any, error) {
	node = follow(node)
	if isNull(node) && s.Kind != Map && s.Kind != Options {
		return s.decodeNull()
	}
	switch s.Kind {
	case Bool:
		return s.decodeBool(node)
	case Int:
		return s.decodeInt(node)
	case Number:
		return s.decodeNumber(node)
	case Seconds:
		return s.decodeSeconds(node)
	case Text, Choice, Address, URL:
		return s.decodeText(node)
	case Names:
		return s.decodeNames(node)
	case Queues:
		return decodeQueues(node)
	case Served:
		return s.decodeServed(node)
	case Map, Options:
		return s.decodeMap(node)
	case Any:
		return generic(node)
	default:
		return nil, fmt.Errorf("kind %q is not known", s.Kind)
	}
}

func (s Setting) decodeNull() (any, error) {
	if s.nullable() || s.Kind == Any {
		return nil, nil //nolint:nilnil // null is a value
	}
	return nil, s.refuse("null")
}

// refuse is the error for a value that the setting doesn't take.
func (s Setting) refuse(value string) error {
	return fmt.Errorf("%s is not allowed: %s", value, s.Allowed())
}

// refuseNode shows the node's value, masked if it may be a secret.
func (s Setting) refuseNode(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode && isSecret(s.Name) {
		return s.refuse(masked)
	}
	return s.refuse(describe(node))
}

func (s Setting) decodeBool(node *yaml.Node) (any, error) {
	if node.Kind == yaml.ScalarNode {
		switch strings.ToLower(node.Value) { // Celery's words
		case "true", "yes", "on", "1":
			return true, nil
		case "false", "no", "off", "0":
			return false, nil
		}
	}
	return nil, s.refuseNode(node)
}

func (s Setting) decodeInt(node *yaml.Node) (any, error) {
	if node.Kind == yaml.ScalarNode && slices.Contains(s.Choices, node.Value) {
		return nil, nil //nolint:nilnil // the word stands for "not set"
	}
	var n int
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!int" || node.Decode(&n) != nil {
		return nil, s.refuseNode(node)
	}
	if !s.Range.contains(float64(n)) {
		return nil, s.outOfRange(node, float64(n))
	}
	return n, nil
}

func (s Setting) decodeNumber(node *yaml.Node) (any, error) {
	n, ok := float(node)
	if !ok {
		return nil, s.refuseNode(node)
	}
	if !s.Range.contains(n) && !math.IsInf(n, 1) {
		return nil, s.outOfRange(node, n)
	}
	return n, nil
}

func (s Setting) decodeSeconds(node *yaml.Node) (any, error) {
	n, ok := float(node)
	if !ok {
		n, ok = withUnit(node)
	}
	if !ok {
		return nil, s.refuseNode(node)
	}
	if !s.Range.contains(n) {
		return nil, s.outOfRange(node, n)
	}
	return time.Duration(math.Round(n * float64(time.Second))), nil
}

func (s Setting) outOfRange(node *yaml.Node, n float64) error {
	bound := "at least " + number(s.Range.Min)
	if n > s.Range.Max {
		bound = "at most " + number(s.Range.Max)
	}
	return fmt.Errorf("%s is not allowed: %s", describe(node), bound)
}

// float reads a YAML number.
func float(node *yaml.Node) (float64, bool) {
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!int" && node.ShortTag() != "!!float" {
		return 0, false
	}
	var n float64
	err := node.Decode(&n)
	return n, err == nil && !math.IsNaN(n)
}

// withUnit reads Go's durations and days, in seconds.
func withUnit(node *yaml.Node) (float64, bool) {
	if node.Kind != yaml.ScalarNode {
		return 0, false
	}
	if days, found := strings.CutSuffix(node.Value, "d"); found {
		n, err := strconv.ParseFloat(days, 64)
		return n * 86_400, err == nil && !math.IsNaN(n)
	}
	d, err := time.ParseDuration(node.Value)
	return d.Seconds(), err == nil
}

func (s Setting) decodeText(node *yaml.Node) (any, error) {
	if s.Kind == URL {
		node = onlyURL(node)
	}
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		return nil, fmt.Errorf("%w%s", s.refuseNode(node), quotesHint(node))
	}
	switch s.Kind {
	case Choice:
		return s.decodeChoice(node)
	case Address:
		return s.decodeAddress(node)
	case URL:
		return decodeURL(node.Value)
	default:
		return node.Value, nil
	}
}

// quotesHint helps with names that YAML takes for numbers or dates.
func quotesHint(node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode || isNull(node) || node.ShortTag() == "!!str" {
		return ""
	}
	return " (in quotes)"
}

func (s Setting) decodeChoice(node *yaml.Node) (any, error) {
	if lower := strings.ToLower(node.Value); slices.Contains(s.Choices, lower) {
		return lower, nil
	}
	return nil, s.refuseNode(node)
}

func (s Setting) decodeAddress(node *yaml.Node) (any, error) {
	if node.Value == "" && s.Default == `""` {
		return "", nil
	}
	_, port, err := net.SplitHostPort(node.Value)
	if err != nil {
		return nil, s.refuseNode(node)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, s.refuseNode(node)
	}
	return node.Value, nil
}

// onlyURL takes the URL out of a list of one: Celery allows lists.
func onlyURL(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.SequenceNode && len(node.Content) == 1 {
		return follow(node.Content[0])
	}
	return node
}

// decodeURL only refuses Celery's other form of a list; the scheme is judged
// where it is known what the URL is for.
func decodeURL(text string) (any, error) {
	if strings.Contains(text, ";") {
		return nil, errors.New("a list of URLs is not supported yet: give one")
	}
	return text, nil
}

func (s Setting) decodeNames(node *yaml.Node) (any, error) {
	if node.Kind != yaml.SequenceNode {
		return nil, s.refuseNode(node)
	}
	names := make([]string, 0, len(node.Content))
	for _, item := range node.Content {
		item = follow(item)
		if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" || item.Value == "" {
			return nil, fmt.Errorf("%s in the list is not allowed: %s%s", describe(item), s.Allowed(), quotesHint(item))
		}
		names = append(names, item.Value)
	}
	return names, nil
}

func (s Setting) decodeMap(node *yaml.Node) (any, error) {
	if isNull(node) {
		return map[string]any{}, nil
	}
	if node.Kind != yaml.MappingNode {
		return nil, s.refuseNode(node)
	}
	return generic(node)
}

// describe shows a value in a message: short, and with the password of a URL
// masked.
func describe(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a map"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(node):
		return "null"
	case node.ShortTag() == "!!str":
		return quoted(node.Value)
	default:
		return shortened(node.Value)
	}
}

// quoted shows a text in a message.
func quoted(text string) string {
	return strconv.Quote(shortened(maskURL(text)))
}

// shortened keeps a value from filling the screen.
func shortened(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
