package protocol

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"protocol: more than 5 levels":                                &LimitError{What: "levels", Limit: 5},
		"protocol: bad envelope: no properties":                       &EnvelopeError{errors.New("no properties")},
		"protocol: can't decode json: extra data":                     &DecodeError{What: "json", Err: errors.New("extra data")},
		"protocol: can't encode: no form":                             &EncodeError{Err: errors.New("no form")},
		"protocol: can't encode .a[1]: no form":                       inPath(".a", inPath("[1]", encodeErrorf("no form"))),
		"protocol: invalid task message: no id":                       invalidTaskf("no %s", "id"),
		`protocol: received unregistered task of type "t" (id i)`:     &UnknownTaskError{Task: "t", ID: "i"},
		"t() argument after * must be an iterable, not int":           &TypeError{"t() argument after * must be an iterable, not int"},
		"protocol: unknown message: no task name in headers or body":  ErrUnknownMessage,
		"Refusing to deserialize untrusted content of type a/b (a/b)": &ContentDisallowedError{ContentType: "a/b"},
	} {
		require.EqualError(t, err, want)
	}
	other := errors.New("other")
	require.Equal(t, other, inPath(".a", other))
	for _, err := range []error{&EnvelopeError{other}, &DecodeError{Err: other}, &EncodeError{Err: other}, fmt.Errorf("wrapped: %w", inPath(".a", &EncodeError{Err: other}))} {
		require.ErrorIs(t, err, other)
	}
}
