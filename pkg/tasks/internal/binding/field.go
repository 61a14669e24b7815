package binding

import (
	"fmt"
	"math/big"
	"reflect"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// field is an exported field of a struct, those of embedded structs included.
type field struct {
	tag
	// name is the name on the wire, goName the one in the source.
	name, goName string
	typ          reflect.Type
	// index leads to the field from the outermost struct.
	index []int
}

// optionalField tells whether the argument may be missing. A pointer may, unless
// it says otherwise; *big.Int is how Go writes a number, not a pointer to one.
func (f *field) optionalField() bool {
	pointer := f.typ.Kind() == reflect.Pointer && f.typ != reflect.TypeFor[*big.Int]()
	return f.hasFallback || f.optional || (pointer && !f.required)
}

// fieldsOf lists the fields of a struct in order. The fields of an embedded
// struct stand in its place; as in Go an outer field hides an inner one of the
// same name.
func fieldsOf(t reflect.Type) ([]field, error) {
	all, err := appendFields(nil, t, nil)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]int, len(all))
	for i := range all {
		other, taken := byName[all[i].name]
		switch {
		case !taken || len(all[i].index) < len(all[other].index):
			byName[all[i].name] = i
		case len(all[i].index) == len(all[other].index):
			return nil, fmt.Errorf("fields %s and %s of %s have the same name %q", all[other].goName, all[i].goName, t, all[i].name)
		}
	}
	visible := make([]field, 0, len(byName))
	for i := range all {
		if byName[all[i].name] == i {
			visible = append(visible, all[i])
		}
	}
	return visible, nil
}

func appendFields(fields []field, t reflect.Type, prefix []int) ([]field, error) {
	for i := range t.NumField() {
		structField := t.Field(i)
		parsed, err := tagOf(structField)
		if err != nil {
			return nil, err
		}
		if parsed.skip {
			continue
		}
		// A fresh array for each: appending to prefix itself would share one.
		index := append(append(make([]int, 0, len(prefix)+1), prefix...), i)
		if structField.Anonymous && parsed.name == "" && structField.Type.Kind() == reflect.Pointer {
			return nil, fmt.Errorf("field %s: embed the struct itself, not a pointer to it", structField.Name)
		}
		if structField.Anonymous && parsed.name == "" && isPlainStruct(structField.Type) {
			if fields, err = appendFields(fields, structField.Type, index); err != nil {
				return nil, err
			}
			continue
		}
		if !structField.IsExported() {
			continue
		}
		name := parsed.name
		if name == "" {
			name = protocol.PythonName(structField.Name)
		}
		fields = append(fields, field{tag: parsed, name: name, goName: structField.Name, typ: structField.Type, index: index})
	}
	return fields, nil
}

// isPlainStruct tells whether a struct is a bag of fields, not a value such as
// time.Time or a decimal.
func isPlainStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && wellKnown(t) == nil && !unmarshalsText(t)
}
