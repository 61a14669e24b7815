package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Content types of the serializers.
const (
	ContentTypeJSON    = "application/json"
	ContentTypeYAML    = "application/x-yaml"
	ContentTypeMsgpack = "application/x-msgpack"
	ContentTypePickle  = "application/x-python-serialize"
)

// serializers are kombu's names for content types, and the content encoding
// that each is sent with.
var serializers = [...]struct{ name, contentType, contentEncoding string }{
	{"json", ContentTypeJSON, "utf-8"},
	{"yaml", ContentTypeYAML, "utf-8"},
	{"msgpack", ContentTypeMsgpack, "binary"},
	{"pickle", ContentTypePickle, "binary"},
}

// serializerName is kombu's name for a content type, "" if it has none.
func serializerName(contentType string) string {
	for _, s := range serializers {
		if s.contentType == contentType {
			return s.name
		}
	}
	return ""
}

// contentTypeOf is the content type of a serializer by name; a MIME type stands
// for itself.
func contentTypeOf(name string) (string, bool) {
	for _, s := range serializers {
		if s.name == name {
			return s.contentType, true
		}
	}
	return name, strings.Contains(name, "/")
}

// contentEncodingOf is what a serializer's bodies are sent with.
func contentEncodingOf(contentType string) string {
	for _, s := range serializers {
		if s.contentType == contentType {
			return s.contentEncoding
		}
	}
	return ""
}

// Accept is the set of content types that may be decoded (Celery's
// accept_content). The zero value accepts JSON only.
type Accept struct {
	types map[string]bool
}

// NewAccept makes a set of serializer names (json, yaml, msgpack, pickle) or MIME
// types; no names at all mean JSON. It returns an error for a name that is
// neither. Accepting pickle is possible, as a Celery configuration may say so,
// but it is never decoded.
func NewAccept(names []string) (Accept, error) {
	if len(names) == 0 {
		return Accept{}, nil
	}
	types := make(map[string]bool, len(names))
	for _, name := range names {
		contentType, ok := contentTypeOf(name)
		if !ok {
			return Accept{}, fmt.Errorf("protocol: accept_content: %q is neither a serializer (json, yaml, msgpack, pickle) nor a MIME type", name)
		}
		types[contentType] = true
	}
	return Accept{types: types}, nil
}

// Allows tells whether a body of this content type may be decoded. Plain data is
// always allowed, and a missing content type counts as plain data.
func (a Accept) Allows(contentType string) bool {
	switch contentType {
	case "", "application/data", "application/text":
		return true
	}
	if a.types == nil {
		return contentType == ContentTypeJSON
	}
	return a.types[contentType]
}

// Serialize encodes v with the serializer of that name or content type: json,
// yaml or msgpack; "" is json. It returns an *EncodeError for a value that the
// serializer has no form for and for other serializers.
func Serialize(serializer string, v any) (body []byte, contentType, contentEncoding string, err error) {
	contentType, _ = contentTypeOf(cmp.Or(serializer, "json"))
	switch contentType {
	case ContentTypeJSON:
		body, err = EncodeJSON(v)
	case ContentTypeYAML:
		body, err = encodeYAML(v)
	case ContentTypeMsgpack:
		body, err = encodeMsgpack(v)
	default:
		err = encodeErrorf("no encoder for serializer %q", serializer)
	}
	if err != nil {
		return nil, "", "", err
	}
	return body, contentType, contentEncodingOf(contentType), nil
}

// Deserialize decodes a body. An empty one decodes to itself, and one of plain
// data to a string, or to bytes where the content encoding is binary. It returns
// a *ContentDisallowedError for a type that accept doesn't allow and for pickle,
// a *DecodeError for everything else.
func Deserialize(body []byte, contentType, contentEncoding string, accept Accept, limits Limits) (any, error) {
	if !accept.Allows(contentType) {
		return nil, &ContentDisallowedError{ContentType: contentType}
	}
	if contentType == ContentTypePickle {
		return nil, &ContentDisallowedError{ContentType: contentType, Never: true}
	}
	if len(body) == 0 {
		return []byte{}, nil
	}
	if len(body) > limits.Body {
		return nil, &DecodeError{What: "body", Err: &LimitError{What: "bytes of body", Limit: limits.Body}}
	}
	switch contentType {
	case ContentTypeJSON:
		return DecodeJSON(body, limits)
	case ContentTypeYAML:
		return decodeYAML(body, limits)
	case ContentTypeMsgpack:
		return decodeMsgpack(body, limits)
	}
	return plainData(body, contentEncoding)
}

// plainData decodes a body that no serializer is known for.
func plainData(body []byte, contentEncoding string) (any, error) {
	switch strings.ToLower(contentEncoding) {
	case "binary", "ascii-8bit":
		return body, nil
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		if !utf8.Valid(body) {
			return nil, &DecodeError{What: "body", Err: errors.New("not valid UTF-8")}
		}
		return string(body), nil
	}
	return nil, &DecodeError{What: "body", Err: fmt.Errorf("unknown content encoding %q", cut(contentEncoding))}
}
