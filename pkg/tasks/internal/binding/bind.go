package binding

import "reflect"

// argument is what a call gives to one parameter.
type argument struct {
	value any
	given bool
}

// Bind fills into, the struct (or pointer) that the signature was compiled from,
// with the arguments of a call. The checks come in Python's order: keywords, too
// many positions, missing ones, and last the values. It returns an *Error.
func (s *Signature) Bind(args []any, kwargs map[string]any, into reflect.Value) error {
	call := make([]argument, len(s.parameters))
	for i := range min(len(args), s.positional) {
		call[i] = argument{value: args[i], given: true}
	}
	extra, err := s.bindKeywords(call, kwargs)
	if err != nil {
		return err
	}
	if len(args) > s.positional && s.rest == nil {
		return s.tooMany(len(args), call)
	}
	if err := s.missing(call); err != nil {
		return err
	}
	if s.behindPointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if err := s.fill(call, into); err != nil {
		return err
	}
	return s.fillCollectors(args[min(len(args), s.positional):], extra, into)
}

// bindKeywords gives keyword arguments to their parameters and returns those
// that none takes. Of several that are wrong it reports the first in alphabetical
// order, so that the same call always fails with the same text.
func (s *Signature) bindKeywords(call []argument, kwargs map[string]any) (map[string]any, error) {
	var extra map[string]any
	wrong, isWrong := "", false
	for name, value := range kwargs {
		i, known := s.byName[name]
		switch {
		case known && !call[i].given:
			call[i] = argument{value: value, given: true}
		case !known && s.keywords != nil:
			if extra == nil {
				extra = make(map[string]any)
			}
			extra[name] = value
		case !isWrong || name < wrong:
			wrong, isWrong = name, true
		}
	}
	if isWrong {
		return nil, s.wrongKeyword(wrong)
	}
	return extra, nil
}

func (s *Signature) fill(call []argument, into reflect.Value) error {
	for i := range s.parameters {
		p := &s.parameters[i]
		value := call[i].value
		if !call[i].given {
			if !p.hasFallback {
				continue
			}
			value = p.fallback
		}
		if problem := p.convert(value, into.FieldByIndex(p.index)); problem != nil {
			return problem.of(s.function, p.name)
		}
	}
	return nil
}

// fillCollectors fills *args and **kwargs. As in Python they are empty, not
// None, where there is nothing for them.
func (s *Signature) fillCollectors(rest []any, extra map[string]any, into reflect.Value) error {
	if s.rest != nil {
		if problem := s.rest.convert(rest, into.FieldByIndex(s.rest.index)); problem != nil {
			return problem.of(s.function, s.rest.name)
		}
	}
	if s.keywords != nil {
		if extra == nil {
			extra = map[string]any{}
		}
		if problem := s.keywords.convert(extra, into.FieldByIndex(s.keywords.index)); problem != nil {
			return problem.of(s.function, s.keywords.name)
		}
	}
	return nil
}
