package protocol

import (
	"reflect"
	"strings"
)

// fieldTag is what a struct field says about its name on the wire.
type fieldTag struct {
	name      string
	omitEmpty bool
	skip      bool
}

// tagOf reads the `celery` tag of a field, or else its `json` tag.
func tagOf(field reflect.StructField) fieldTag {
	text, ok := field.Tag.Lookup("celery")
	if !ok {
		text = field.Tag.Get("json")
	}
	if text == "-" {
		return fieldTag{skip: true}
	}
	name, options, _ := strings.Cut(text, ",")
	tag := fieldTag{name: name}
	for option := range strings.SplitSeq(options, ",") {
		tag.omitEmpty = tag.omitEmpty || option == "omitempty"
	}
	return tag
}

// addFields adds the fields of struct v to out, those without a tag under the
// name that Python code would use. Those of embedded structs come
// last, so that an outer field hides an inner one of the same name, as in Go.
func addFields(out map[string]any, v reflect.Value, depth int) error {
	if depth > maxDepth {
		return encodeErrorf("%w", &LimitError{What: "levels", Limit: maxDepth})
	}
	var embedded []reflect.Value
	for i := range v.NumField() {
		field, tag := v.Type().Field(i), tagOf(v.Type().Field(i))
		if inner, ok := flattened(field, tag, v.Field(i)); ok {
			if inner.IsValid() {
				embedded = append(embedded, inner)
			}
			continue
		}
		if tag.skip || !field.IsExported() || (tag.omitEmpty && isEmpty(v.Field(i))) {
			continue
		}
		name := tag.name
		if name == "" {
			name = PythonName(field.Name)
		}
		if _, hidden := out[name]; hidden {
			continue
		}
		value, err := toValue(v.Field(i).Interface(), depth+1)
		if err != nil {
			return inPath("."+name, err)
		}
		out[name] = value
	}
	for _, inner := range embedded {
		if err := addFields(out, inner, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// flattened returns the struct whose fields an embedded field lends to its
// parent, or no value for a nil pointer to one. A tag that names the field keeps
// it as it is.
func flattened(field reflect.StructField, tag fieldTag, v reflect.Value) (reflect.Value, bool) {
	if !field.Anonymous || tag.skip || tag.name != "" {
		return v, false
	}
	if v.Kind() == reflect.Pointer && field.Type.Elem().Kind() == reflect.Struct {
		if v.IsNil() {
			return reflect.Value{}, true
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[Date]() {
		return v, false
	}
	if field.IsExported() {
		// An embedded time.Time or decimal is a value, not a bag of fields.
		if _, ok, err := methodValue(v, 0); ok || err != nil {
			return v, false
		}
	}
	return v, true
}

// isEmpty is encoding/json's omitempty, and a zero time.Time too.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		zero, ok := v.Interface().(interface{ IsZero() bool })
		return ok && zero.IsZero()
	default:
		return v.IsZero()
	}
}
