package binding

import (
	"fmt"
	"reflect"
	"strings"
)

// Signature is the parameter list of a handler, compiled from a struct.
type Signature struct {
	// function is what Python's texts call the handler.
	function string
	// behindPointer: the handler takes a pointer to the struct.
	behindPointer bool
	// parameters are the positional ones, then the keyword-only ones.
	parameters []parameter
	positional int
	byName     map[string]int
	// rest takes *args, keywords takes **kwargs; nil where there is none.
	rest, keywords *parameter
}

// parameter is one field of the struct as a Python parameter.
type parameter struct {
	name    string
	index   []int
	convert converter
	// optional parameters get fallback, a wire value, or keep their zero value.
	optional    bool
	fallback    any
	hasFallback bool
}

// Compile makes the signature of a handler that takes in: a struct, whose fields
// in order are the positional parameters, or a pointer to one. task is the name
// the handler is registered under.
//
// The error says which field can't be a parameter, and why.
func Compile(task string, in reflect.Type) (*Signature, error) {
	s := &Signature{function: functionName(task)}
	if in.Kind() == reflect.Pointer {
		s.behindPointer, in = true, in.Elem()
	}
	if !isPlainStruct(in) {
		return nil, fmt.Errorf("the handler must take a struct whose fields are the arguments, not %s", in)
	}
	fields, err := fieldsOf(in)
	if err != nil {
		return nil, err
	}
	if err := s.addAll(fields); err != nil {
		return nil, err
	}
	s.byName = make(map[string]int, len(s.parameters))
	for i := range s.parameters {
		s.byName[s.parameters[i].name] = i
	}
	return s, s.checkOrder()
}

// functionName is the last part of a task's name: Celery names a task by module
// and function.
func functionName(task string) string {
	return task[strings.LastIndexByte(task, '.')+1:]
}

func (s *Signature) addAll(fields []field) error {
	types := newCompiler()
	var keywordOnly []parameter
	for i := range fields {
		f := &fields[i]
		p, err := types.parameter(f)
		if err != nil {
			return err
		}
		switch {
		case f.args && s.rest != nil, f.kwargs && s.keywords != nil:
			return fmt.Errorf("field %s: only one field can take args, and one kwargs", f.goName)
		case f.args:
			s.rest = &p
		case f.kwargs:
			s.keywords = &p
		case f.kwonly || s.rest != nil:
			// As in Python, what follows *args can only be given by keyword.
			keywordOnly = append(keywordOnly, p)
		default:
			s.parameters = append(s.parameters, p)
		}
	}
	s.positional = len(s.parameters)
	s.parameters = append(s.parameters, keywordOnly...)
	return nil
}

// checkOrder is Python's "non-default argument follows default argument".
func (s *Signature) checkOrder() error {
	optional := ""
	for _, p := range s.parameters[:s.positional] {
		if p.optional {
			optional = p.name
		} else if optional != "" {
			return fmt.Errorf("parameter %q without a default follows %q, which has one (a pointer has, unless tagged required)", p.name, optional)
		}
	}
	return nil
}

// parameter compiles one field.
func (c *compiler) parameter(f *field) (parameter, error) {
	p := parameter{name: f.name, index: f.index, optional: f.optionalField(), hasFallback: f.hasFallback}
	var err error
	switch {
	case f.args && f.typ.Kind() != reflect.Slice:
		return p, fmt.Errorf("field %s: args needs a slice, not %s", f.goName, f.typ)
	case f.kwargs && (f.typ.Kind() != reflect.Map || f.typ.Key().Kind() != reflect.String):
		return p, fmt.Errorf("field %s: kwargs needs a map with string keys, not %s", f.goName, f.typ)
	}
	if p.convert, err = c.converterFor(f.typ); err != nil {
		return p, fmt.Errorf("field %s: %w", f.goName, err)
	}
	if p.fallback, err = f.fallbackValue(p.convert); err != nil {
		return p, fmt.Errorf("field %s: %w", f.goName, err)
	}
	return p, nil
}
