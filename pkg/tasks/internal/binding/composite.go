package binding

import (
	"fmt"
	"reflect"
	"strconv"
)

// pointer makes None a nil pointer.
func (c *compiler) pointer(t reflect.Type) (converter, error) {
	element, err := c.converterFor(t.Elem())
	if err != nil {
		return nil, err
	}
	return func(value any, into reflect.Value) *mismatch {
		if value == nil {
			into.SetZero()
			return nil
		}
		target := reflect.New(t.Elem())
		if problem := element(value, target.Elem()); problem != nil {
			return problem
		}
		into.Set(target)
		return nil
	}, nil
}

// slice makes None a nil slice.
func (c *compiler) slice(t reflect.Type) (converter, error) {
	element, err := c.converterFor(t.Elem())
	if err != nil {
		return nil, err
	}
	return func(value any, into reflect.Value) *mismatch {
		if value == nil {
			into.SetZero()
			return nil
		}
		list, ok := value.([]any)
		if !ok {
			return wrongType("list", value)
		}
		made := reflect.MakeSlice(t, len(list), len(list))
		into.Set(made)
		return fillList(list, made, element)
	}, nil
}

func (c *compiler) array(t reflect.Type) (converter, error) {
	element, err := c.converterFor(t.Elem())
	if err != nil {
		return nil, err
	}
	return func(value any, into reflect.Value) *mismatch {
		list, ok := value.([]any)
		if !ok {
			return wrongType("list", value)
		}
		if len(list) != t.Len() {
			return wrongValue("the list has %d items, %d are needed", len(list), t.Len())
		}
		return fillList(list, into, element)
	}, nil
}

func fillList(list []any, into reflect.Value, element converter) *mismatch {
	for i, item := range list {
		if problem := element(item, into.Index(i)); problem != nil {
			return problem.in("[" + strconv.Itoa(i) + "]")
		}
	}
	return nil
}

// mapping makes None a nil map. JSON has text keys only, so keys that are
// numbers in Go are read from their text.
func (c *compiler) mapping(t reflect.Type) (converter, error) {
	key, err := keyConverter(t.Key())
	if err != nil {
		return nil, err
	}
	element, err := c.converterFor(t.Elem())
	if err != nil {
		return nil, err
	}
	return func(value any, into reflect.Value) *mismatch {
		if value == nil {
			into.SetZero()
			return nil
		}
		entries, ok := value.(map[string]any)
		if !ok {
			return wrongType("dict", value)
		}
		made := reflect.MakeMapWithSize(t, len(entries))
		into.Set(made)
		return fillMap(entries, made, key, element)
	}, nil
}

func fillMap(entries map[string]any, into reflect.Value, convertKey, convertElement converter) *mismatch {
	t := into.Type()
	for name, item := range entries {
		key, element := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if problem := convertKey(name, key); problem != nil {
			return problem.in(keyStep(name))
		}
		if problem := convertElement(item, element); problem != nil {
			return problem.in(keyStep(name))
		}
		into.SetMapIndex(key, element)
	}
	return nil
}

func keyStep(key string) string { return "[" + strconv.Quote(cut(key)) + "]" }

func keyConverter(t reflect.Type) (converter, error) {
	switch {
	case unmarshalsText(t):
		return textConverter(t), nil
	case t.Kind() == reflect.String:
		return convertString, nil
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return integerKey(scalarConverter(t)), nil
	default:
		return nil, fmt.Errorf("the keys of a dict are text, which can't become a %s", t)
	}
}

func integerKey(convert converter) converter {
	return func(value any, into reflect.Value) *mismatch {
		text, ok := value.(string)
		if !ok {
			return wrongType("str", value)
		}
		number, ok := parseInteger(text)
		if !ok {
			return badText(text, "an int")
		}
		return convert(number, into)
	}
}

// structure reads a dict into a struct. It is data, not a call: as with
// encoding/json, unknown keys are passed over and missing ones leave the default
// or the zero value. A field without a tag is found under its Python name or its
// Go name.
func (c *compiler) structure(t reflect.Type) (converter, error) {
	fields, err := fieldsOf(t)
	if err != nil {
		return nil, err
	}
	members := make([]parameter, len(fields))
	for i := range fields {
		if fields[i].args || fields[i].kwargs || fields[i].kwonly {
			return nil, fmt.Errorf("field %s of %s: args, kwargs and kwonly are for the parameters of a task", fields[i].goName, t)
		}
		if members[i], err = c.parameter(&fields[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
	}
	return func(value any, into reflect.Value) *mismatch {
		entries, ok := value.(map[string]any)
		if !ok {
			return wrongType("dict", value)
		}
		for i := range members {
			if problem := members[i].fillFrom(entries, fields[i].tag.name == "", fields[i].goName, into); problem != nil {
				return problem.in("." + members[i].name)
			}
		}
		return nil
	}, nil
}

func (p *parameter) fillFrom(entries map[string]any, untagged bool, goName string, into reflect.Value) *mismatch {
	value, ok := entries[p.name]
	if !ok && untagged {
		value, ok = entries[goName]
	}
	if !ok {
		if !p.hasFallback {
			return nil
		}
		value = p.fallback
	}
	return p.convert(value, into.FieldByIndex(p.index))
}
