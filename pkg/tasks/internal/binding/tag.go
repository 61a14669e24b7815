package binding

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// tag is what a struct field says about its parameter.
type tag struct {
	// name is empty where the field doesn't give one.
	name string
	skip bool
	// args and kwargs mark the field that takes *args or **kwargs.
	args, kwargs bool
	kwonly       bool
	// optional leaves the zero value where the argument is missing; required takes
	// back that pointers are optional.
	optional, required bool
	fallback           string
	hasFallback        bool
}

// tagOf reads the `celery` tag of a field, or else the name in its `json` tag.
func tagOf(field reflect.StructField) (tag, error) {
	text, ok := field.Tag.Lookup("celery")
	if !ok {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		return tag{name: name, skip: field.Tag.Get("json") == "-"}, nil
	}
	if text == "-" {
		return tag{skip: true}, nil
	}
	parsed, err := parseTag(text)
	if err != nil {
		return tag{}, fmt.Errorf("field %s: tag `celery:%q`: %w", field.Name, text, err)
	}
	return parsed, nil
}

// parseTag reads "name,option,...". default= comes last, because its value may
// hold commas.
func parseTag(text string) (tag, error) {
	var parsed tag
	name, options, _ := strings.Cut(text, ",")
	parsed.name = name
	for options != "" {
		if value, ok := strings.CutPrefix(options, "default="); ok {
			parsed.fallback, parsed.hasFallback = value, true
			break
		}
		var option string
		option, options, _ = strings.Cut(options, ",")
		if err := parsed.set(option); err != nil {
			return tag{}, err
		}
	}
	return parsed, parsed.conflict()
}

func (t *tag) set(option string) error {
	switch option {
	case "args":
		t.args = true
	case "kwargs":
		t.kwargs = true
	case "kwonly":
		t.kwonly = true
	case "optional":
		t.optional = true
	case "required":
		t.required = true
	case "", "omitempty":
		// omitempty is for the way out, when the struct is part of a result.
	default:
		return fmt.Errorf("unknown option %q; known are args, kwargs, kwonly, optional, required, default=", option)
	}
	return nil
}

func (t *tag) conflict() error {
	switch {
	case t.args && t.kwargs:
		return errors.New("a field can't take both args and kwargs")
	case (t.args || t.kwargs) && (t.kwonly || t.optional || t.required || t.hasFallback):
		return errors.New("args and kwargs stand alone")
	case t.required && (t.optional || t.hasFallback):
		return errors.New("required contradicts optional and default=")
	}
	return nil
}
