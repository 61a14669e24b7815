// Package check reads Kubernetes manifests as strictly as an API server does: into the
// types of its API, where an unknown field, a value of another type and a missing
// required field are errors. It has a module of its own, so that users of the worker
// don't inherit those types.
package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kinds are the types of the manifests that can be read, by apiVersion and kind.
var kinds = map[string]reflect.Type{
	"v1 ConfigMap":                  reflect.TypeFor[core.ConfigMap](),
	"v1 Secret":                     reflect.TypeFor[core.Secret](),
	"v1 Service":                    reflect.TypeFor[core.Service](),
	"apps/v1 Deployment":            reflect.TypeFor[apps.Deployment](),
	"keda.sh/v1alpha1 ScaledObject": reflect.TypeFor[keda.ScaledObject](),
}

// Manifest returns the object of a manifest, as a pointer to its type.
func Manifest(text []byte) (any, error) {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	kind, known := kinds[head.APIVersion+" "+head.Kind]
	if !known {
		return nil, fmt.Errorf("check: unknown apiVersion and kind %q %q", head.APIVersion, head.Kind)
	}
	if head.Metadata.Name == "" {
		return nil, errors.New("check: metadata.name is missing")
	}
	object := reflect.New(kind).Interface()
	return object, Strict(data, object)
}

// Strict decodes JSON into a pointer to a type of the Kubernetes API.
func Strict(data []byte, object any) error {
	unknown, err := strictjson.UnmarshalStrict(data, object)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if absent := missing(reflect.TypeOf(object), value, ""); len(absent) > 0 {
		return fmt.Errorf("check: required: %s", strings.Join(absent, ", "))
	}
	return nil
}

// missing are the paths of the required fields that value doesn't have. A field of the
// Kubernetes API is required unless its tag says omitempty: its OpenAPI schema is made
// by that rule.
func missing(kind reflect.Type, value any, path string) []string {
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if reflect.PointerTo(kind).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil // a scalar, such as a quantity
	}
	var absent []string
	switch fields, items := asMap(value), asList(value); {
	case kind.Kind() == reflect.Struct && fields != nil:
		for i := range kind.NumField() {
			absent = append(absent, missingField(kind.Field(i), fields, path)...)
		}
	case kind.Kind() == reflect.Slice:
		for i, item := range items {
			absent = append(absent, missing(kind.Elem(), item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case kind.Kind() == reflect.Map:
		for key, item := range fields {
			absent = append(absent, missing(kind.Elem(), item, path+"."+key)...)
		}
	}
	return absent
}

func missingField(field reflect.StructField, fields map[string]any, path string) []string {
	tag := strings.Split(field.Tag.Get("json"), ",")
	name, options := tag[0], tag[1:]
	if name == "" && field.Anonymous { // inline
		return missing(field.Type, fields, path)
	}
	value, given := fields[name]
	if given {
		return missing(field.Type, value, path+"."+name)
	}
	if name == "" || name == "-" || slices.Contains(options, "omitempty") {
		return nil
	}
	return []string{strings.TrimPrefix(path+"."+name, ".")}
}

func asMap(value any) map[string]any { fields, _ := value.(map[string]any); return fields }

func asList(value any) []any { items, _ := value.([]any); return items }
