package protocol

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Envelope is the message of kombu's virtual transports: one JSON object that
// imitates an AMQP message.
type Envelope struct {
	// Body is the serialized, perhaps compressed body; the base64 of the wire is
	// undone.
	Body                         []byte
	ContentType, ContentEncoding string
	// Headers hold all that protocol 2 says about a task.
	Headers    map[string]any
	Properties Properties
}

// Properties are the AMQP properties of a message.
type Properties struct {
	CorrelationID, ReplyTo string
	// DeliveryMode is 2 for persistent and 1 for transient messages.
	DeliveryMode int
	// Priority is 0 to 9. Which end is urgent depends on the broker.
	Priority     int
	DeliveryInfo DeliveryInfo
	// BodyEncoding is how the body was written: "base64", or "" or "utf-8" for
	// plain text.
	BodyEncoding string
	// DeliveryTag is unique per message; kombu refuses a message without one.
	DeliveryTag string
	// Expiration is in milliseconds, in decimal.
	Expiration string
	// Extra are the properties that kombu has no name for; apply_async puts
	// options there that it does not know.
	Extra map[string]any
}

// DeliveryInfo says how a message was routed.
type DeliveryInfo struct {
	Exchange, RoutingKey string
	// Redelivered is set by a transport that puts an unacknowledged message back.
	Redelivered bool
}

// DecodeEnvelope reads an envelope. Headers and properties may hold the typed
// values of kombu's JSON. Missing and null properties are their zero values; one
// of an unexpected type is left in Extra. It returns an *EnvelopeError; this
// wraps a *LimitError where the envelope is larger than limits allow.
func DecodeEnvelope(data []byte, limits Limits) (*Envelope, error) {
	if len(data) > limits.Envelope {
		return nil, &EnvelopeError{&LimitError{What: "bytes of envelope", Limit: limits.Envelope}}
	}
	if e, ok := readEnvelope(data, limits); ok {
		return e, nil
	}
	e, err := decodeAnyEnvelope(data, limits)
	if err != nil {
		return nil, &EnvelopeError{err}
	}
	return e, nil
}

// decodeAnyEnvelope reads an envelope of any form.
func decodeAnyEnvelope(data []byte, limits Limits) (*Envelope, error) {
	decoded, err := DecodeJSON(data, limits)
	if err != nil {
		return nil, err
	}
	fields, ok := decoded.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a %s, not an object", pythonType(decoded))
	}
	return envelopeOf(fields)
}

func envelopeOf(fields map[string]any) (*Envelope, error) {
	properties, ok := fields["properties"].(map[string]any)
	if !ok {
		return nil, errors.New("no properties")
	}
	e := &Envelope{Properties: propertiesOf(properties)}
	e.ContentType, _ = fields["content-type"].(string)
	e.ContentEncoding, _ = fields["content-encoding"].(string)
	switch headers := fields["headers"].(type) {
	case nil:
		e.Headers = map[string]any{}
	case map[string]any:
		e.Headers = headers
	default:
		return nil, fmt.Errorf("headers are a %s, not an object", pythonType(headers))
	}
	var err error
	e.Body, err = bodyOf(fields["body"], e.Properties.BodyEncoding)
	return e, err
}

// bodyOf undoes the body encoding. A missing body is an empty one, as in kombu.
func bodyOf(body any, encoding string) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	text, ok := body.(string)
	if !ok {
		return nil, fmt.Errorf("the body is a %s, not a string", pythonType(body))
	}
	switch encoding {
	case "base64":
		return decodeBase64(text)
	case "", "utf-8":
		return []byte(text), nil
	}
	return nil, fmt.Errorf("unknown body_encoding %q", cut(encoding))
}

func propertiesOf(fields map[string]any) Properties {
	f := fieldTaker{fields: fields, taken: make([]string, 0, len(fields)+1)}
	p := Properties{
		CorrelationID: f.text("correlation_id"),
		ReplyTo:       f.text("reply_to"),
		DeliveryMode:  f.number("delivery_mode"),
		Priority:      f.number("priority"),
		BodyEncoding:  f.text("body_encoding"),
		DeliveryTag:   f.text("delivery_tag"),
		Expiration:    f.text("expiration"),
	}
	if info, ok := fields["delivery_info"].(map[string]any); ok {
		f.taken = append(f.taken, "delivery_info")
		p.DeliveryInfo.Exchange, _ = info["exchange"].(string)
		p.DeliveryInfo.RoutingKey, _ = info["routing_key"].(string)
		p.DeliveryInfo.Redelivered, _ = info["redelivered"].(bool)
	}
	p.Extra = f.rest()
	return p
}

// fieldTaker reads fields of a map and remembers which it could read.
type fieldTaker struct {
	fields map[string]any
	taken  []string
}

func (f *fieldTaker) text(name string) string {
	text, ok := f.fields[name].(string)
	if ok || f.fields[name] == nil {
		f.taken = append(f.taken, name)
	}
	return text
}

func (f *fieldTaker) number(name string) int {
	n, ok := intOf(f.fields[name])
	if ok || f.fields[name] == nil {
		f.taken = append(f.taken, name)
	}
	return n
}

// rest are the fields that were not taken, nil if there are none.
func (f *fieldTaker) rest() map[string]any {
	var rest map[string]any
	for name, value := range f.fields {
		if !slices.Contains(f.taken, name) {
			if rest == nil {
				rest = map[string]any{}
			}
			rest[name] = value
		}
	}
	return rest
}

// Encode writes the envelope, the body in base64. The caller has set a delivery
// tag. It returns an *EncodeError for a header or property that JSON has no form
// for, and where the delivery tag is missing.
func (e *Envelope) Encode() ([]byte, error) {
	if e.Properties.DeliveryTag == "" {
		return nil, &EncodeError{Path: "properties.delivery_tag", Err: errors.New("missing")}
	}
	return EncodeJSON(map[string]any{
		"body":             base64.StdEncoding.EncodeToString(e.Body),
		"content-type":     e.ContentType,
		"content-encoding": e.ContentEncoding,
		"headers":          e.headers(),
		"properties":       e.Properties.value(),
	})
}

// Wire is what a transport sends of an envelope: its JSON, under a delivery tag of
// its own, and beside it the JSON of its headers, which some brokers keep apart.
func (e *Envelope) Wire(deliveryTag string) (body, headers []byte, err error) {
	e.Properties.DeliveryTag = deliveryTag
	if body, err = e.Encode(); err != nil {
		return nil, nil, err
	}
	headers, err = e.HeadersJSON()
	return body, headers, err
}

// HeadersJSON writes the headers alone, for transports that show them beside the
// envelope.
func (e *Envelope) HeadersJSON() ([]byte, error) { return EncodeJSON(e.headers()) }

func (e *Envelope) headers() map[string]any {
	if e.Headers == nil {
		return map[string]any{}
	}
	return e.Headers
}

func (p *Properties) value() map[string]any {
	info := map[string]any{"exchange": p.DeliveryInfo.Exchange, "routing_key": p.DeliveryInfo.RoutingKey}
	if p.DeliveryInfo.Redelivered {
		info["redelivered"] = true
	}
	out := make(map[string]any, len(p.Extra)+8)
	maps.Copy(out, p.Extra)
	out["correlation_id"] = p.CorrelationID
	out["reply_to"] = p.ReplyTo
	out["delivery_mode"] = int64(p.DeliveryMode)
	out["priority"] = int64(p.Priority)
	out["delivery_info"] = info
	out["body_encoding"] = "base64"
	out["delivery_tag"] = p.DeliveryTag
	if p.Expiration != "" {
		out["expiration"] = p.Expiration
	}
	return out
}
