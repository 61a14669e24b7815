package rayserve

import "github.com/lovage-project/lovage/pkg/protocol"

// Query is the request of a synchronous inference.
type Query struct {
	// Name is the name of the handler.
	Name string
	// Args and Kwargs are the arguments, as in Task.
	Args   []any
	Kwargs map[string]any
}

// EncodeQuery writes the body of a query; its errors are those of EncodeTask.
func EncodeQuery(q Query) ([]byte, error) {
	fields, err := encodeCall(q.Name, q.Args, q.Kwargs)
	if err != nil {
		return nil, err
	}
	return encodeObject(fields...)
}

// DecodeQuery reads the body of a query. Every error is a *MalformedError, as those of
// DecodeTask.
func DecodeQuery(body []byte, limits protocol.Limits) (*Query, error) {
	fields, malformed := decodeObject(body, limits)
	if malformed != nil {
		return nil, malformed
	}
	c, reason := readCall(fields)
	if reason != "" {
		return nil, &MalformedError{Reason: reason, Name: c.name}
	}
	return &Query{Name: c.name, Args: c.args, Kwargs: c.kwargs}, nil
}

// Response is the answer to a query.
type Response struct {
	// Status is StatusSuccess or StatusFailure.
	Status Status
	// Result is what the handler returned.
	Result any
	// Error is "<type>: <message>" of the handler's error, "" (null) where there was
	// none.
	Error string
}

// EncodeResponse writes the body of a response. A result that JSON has no form for is
// a *protocol.EncodeError.
func EncodeResponse(r Response) ([]byte, error) {
	result, err := plain("result", r.Result)
	if err != nil {
		return nil, err
	}
	var failure any
	if r.Error != "" {
		failure = r.Error
	}
	return encodeObject(field{"status", string(r.Status)}, field{"result", result}, field{"error", failure})
}

// DecodeResponse reads the body of a response. As for the adapter, one without a
// status is a FAILURE. Every error is a *MalformedError: not UTF-8, not JSON, not an
// object, or beyond the limits.
func DecodeResponse(body []byte, limits protocol.Limits) (Response, error) {
	fields, malformed := decodeObject(body, limits)
	if malformed != nil {
		return Response{}, malformed
	}
	r := Response{Status: Status(text(fields, "status")), Result: fields["result"], Error: text(fields, "error")}
	if r.Status == "" {
		r.Status = StatusFailure
	}
	return r, nil
}
