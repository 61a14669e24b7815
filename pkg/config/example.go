package config

import (
	"fmt"
	"io"
	"strings"
)

const exampleHead = `# Every setting of the worker, with its default.
#
# Generated from the table in pkg/config: go test ./pkg/config -update
#
# Names, kinds and defaults are Celery's, so that a Python configuration moves
# over as it is. Times are in seconds, or have a unit: 500ms, 30s, 15m, 12h, 1d.
# Each setting has an environment variable, LOVAGE_ and its name in upper case
# with dots as underscores. The environment beats this file, and the command
# line beats the environment.
`

// WriteExample writes a celery.yaml that holds every setting, commented out and
// with its default. configs/celery.yaml is this text.
func WriteExample(out io.Writer) error {
	e := exampleWriter{}
	e.text.WriteString(exampleHead)
	for _, s := range Table() {
		e.setting(s)
	}
	_, err := io.WriteString(out, e.text.String())
	return err
}

// exampleWriter writes setting after setting. A line that begins with "# " is a
// comment, one that begins with "#" alone is YAML to be uncommented.
type exampleWriter struct {
	text    strings.Builder
	group   string
	note    string
	section []string
}

func (e *exampleWriter) setting(s Setting) {
	if s.Group != e.group {
		fmt.Fprintf(&e.text, "\n# ---- %s ----\n", s.Group)
		e.group, e.note, e.section = s.Group, "", nil
	}
	path := strings.Split(s.Name, ".")
	last := len(path) - 1
	line := fmt.Sprintf("%s: %s", path[last], orNull(s.Default))
	if s.Support != Supported {
		e.unsupported(s, line)
		return
	}
	e.text.WriteString("\n")
	e.openSections(path[:last])
	for _, comment := range s.comments() {
		e.comment(last, comment)
	}
	e.yaml(last, line)
}

// openSections writes the headings of the sections that the setting before was
// not in.
func (e *exampleWriter) openSections(path []string) {
	for depth, name := range path {
		if depth < len(e.section) && e.section[depth] == name {
			continue
		}
		e.section = append(e.section[:depth], name)
		e.yaml(depth, name+":")
	}
	e.section = e.section[:len(path)]
}

// unsupported writes settings without effect one a line, under the reason that
// they share.
func (e *exampleWriter) unsupported(s Setting, line string) {
	if note := fmt.Sprintf("%s: %s.", s.Support, s.Note); note != e.note {
		e.text.WriteString("\n")
		e.comment(0, strings.ToUpper(note[:1])+note[1:])
		e.note = note
	}
	if s.Doc != "" {
		line = fmt.Sprintf("%-50s # %s", line, s.Doc)
	}
	e.yaml(0, line)
}

func (e *exampleWriter) yaml(depth int, line string) {
	fmt.Fprintf(&e.text, "#%s%s\n", indent(depth), line)
}

// comment writes text as a comment that stays one when the YAML around it is
// uncommented.
func (e *exampleWriter) comment(depth int, text string) {
	const width = 88
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+len(word) >= width {
			e.commentLine(depth, line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	e.commentLine(depth, line)
}

func (e *exampleWriter) commentLine(depth int, line string) {
	if depth == 0 {
		fmt.Fprintf(&e.text, "# %s\n", line)
		return
	}
	e.yaml(depth, "# "+line)
}

// comments say what a setting does, and which values it takes where the default
// doesn't show it.
func (s Setting) comments() []string {
	comments := []string{s.Doc}
	switch {
	case s.Kind == Options:
		comments = append(comments, "Options: "+strings.Join(usedOptions(s.Fields), ", ")+".")
	case len(s.Choices) > 1, s.Kind == Int && len(s.Choices) > 0:
		comments = append(comments, "Allowed: "+s.Allowed()+".")
	case s.Range != nil && s.Range.Max != unbounded:
		comments = append(comments, "Allowed: "+s.Range.String()+".")
	}
	return comments
}

func usedOptions(fields []Setting) []string {
	var names []string
	for _, field := range fields {
		if field.For != "" {
			names = append(names, field.Name)
		}
	}
	return names
}

func indent(depth int) string { return strings.Repeat("  ", depth) }

func orNull(text string) string {
	if text == "" {
		return "null"
	}
	return text
}
