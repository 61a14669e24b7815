package protocol

import (
	"cmp"
	"maps"
)

// AgainOptions say how a received message is sent again.
type AgainOptions struct {
	// Protocol is the version to send, Protocol2 or Protocol1.
	Protocol int
	// NewArguments tells that the message's Args or Kwargs are not the received ones.
	NewArguments bool
	// Headers are custom headers to set, in place of those of the same name. Names of
	// Celery's own headers are passed over.
	Headers map[string]any
	// Limits bound the received envelope.
	Limits Limits
}

// Again makes the envelope that runs a received message again. data is the
// envelope as it was received, m its message, in which the caller has changed any
// of Retries, ETA, Queue, Priority, Args and Kwargs. All else goes out as it came,
// byte for byte where the protocol stays the same: headers, also numbers that no
// float64 holds, unknown properties, and the body unless the arguments are new or
// protocol 1, which keeps the retries in its body, asks for another. The mark of a
// redelivery is dropped.
//
// The envelope is for Wire: its headers hold JSON text. It returns the errors of
// DecodeEnvelope and EncodeMessage.
func Again(data []byte, m *Message, o AgainOptions) (*Envelope, error) {
	received, err := DecodeEnvelope(data, o.Limits)
	if err != nil {
		return nil, err
	}
	raw, err := rawHeaders(data, o.Limits)
	if err != nil {
		return nil, &EnvelopeError{err}
	}
	out, err := againBody(received, m, o)
	if err != nil {
		return nil, err
	}
	out.Headers = againHeaders(out.Headers, raw, m, o)
	out.Properties = m.properties()
	out.Properties.Extra = received.Properties.Extra
	out.Properties.DeliveryMode = cmp.Or(received.Properties.DeliveryMode, out.Properties.DeliveryMode)
	return out, nil
}

// againBody is an envelope with the received body, where that says what the message
// says, and no headers; else the message encoded anew.
func againBody(received *Envelope, m *Message, o AgainOptions) (*Envelope, error) {
	if o.Protocol != Protocol2 || m.Protocol != Protocol2 || o.NewArguments {
		return EncodeMessage(m, EncodeOptions{Protocol: o.Protocol})
	}
	if err := m.checkTimes(); err != nil {
		return nil, err
	}
	return &Envelope{
		Body: received.Body, ContentType: received.ContentType, ContentEncoding: received.ContentEncoding,
	}, nil
}

// againHeaders are the received headers with what changes. encoded are those of a
// message that had to be encoded anew, nil for one that keeps its body.
func againHeaders(encoded map[string]any, raw map[string]rawJSON, m *Message, o AgainOptions) map[string]any {
	headers := orEmptyMap(maps.Clone(encoded))
	// Celery's headers of a protocol 1 message count or not, as its body tells: what
	// counts is in the message.
	all := m.Protocol == Protocol2 && o.Protocol == Protocol2
	for name, value := range raw {
		if all || !isCeleryHeader(name) {
			headers[name] = value
		}
	}
	for _, name := range [...]string{"compression", "argsrepr", "kwargsrepr"} {
		if value, ok := encoded[name]; ok {
			headers[name] = value
		}
	}
	delete(headers, "redelivered")
	if o.Protocol == Protocol2 {
		headers["retries"], headers["eta"] = int64(m.Retries), timeValue(m.ETA)
	}
	for name, value := range o.Headers {
		if !isCeleryHeader(name) {
			headers[name] = value
		}
	}
	return headers
}

// rawJSON is JSON text that is written as it is.
type rawJSON []byte

// rawHeaders are the headers of an envelope as they are written in it.
func rawHeaders(data []byte, limits Limits) (map[string]rawJSON, error) {
	raw := map[string]rawJSON{}
	d := jsonDecoder{data: data, budget: budget{limits: limits}}
	err := d.members(func(key string) error {
		d.space()
		if key != "headers" || d.pos >= len(data) || data[d.pos] != '{' {
			_, err := d.value()
			return err
		}
		clear(raw) // the last of duplicate keys counts
		return d.members(func(name string) error {
			d.space()
			start := d.pos
			_, err := d.value()
			raw[name] = data[start:d.pos:d.pos]
			return err
		})
	})
	return raw, err
}

// members calls visit with each key of an object; visit reads the value.
func (d *jsonDecoder) members(visit func(key string) error) error {
	if err := d.enterMap(); err != nil {
		return err
	}
	defer d.leave()
	if d.space(); !d.skip('{') {
		return d.fail("expecting an object")
	}
	if d.space(); d.skip('}') {
		return nil
	}
	for {
		key, err := d.key()
		if err != nil {
			return err
		}
		if err := visit(key); err != nil {
			return err
		}
		if d.space(); d.skip('}') {
			return nil
		}
		if !d.skip(',') {
			return d.fail("expecting ',' delimiter")
		}
	}
}
