package protocol

import "errors"

// errUnusual sends an envelope the long way.
var errUnusual = errors.New("not of the usual form")

// readEnvelope reads an envelope of the form that kombu writes straight into its
// fields, without the maps and boxed values that any other takes on its way. ok is
// false where it has another form, or is none: then decodeAnyEnvelope must have a look. An
// envelope that both take is the same from both (FuzzEnvelopeWays).
func readEnvelope(data []byte, limits Limits) (e *Envelope, ok bool) {
	r := envelopeReader{jsonDecoder: jsonDecoder{data: data, budget: budget{limits: limits}}, e: &Envelope{}}
	if r.read(r.field) != nil {
		return nil, false
	}
	if r.e.Headers == nil {
		r.e.Headers = map[string]any{}
	}
	return r.e, true
}

// read reads the whole document; field reads the value of a key.
func (r *envelopeReader) read(field func(key string) error) error {
	if r.begin() != nil || r.item() != nil || r.members(field) != nil || r.end() != nil || !r.hasProperties {
		return errUnusual
	}
	body, err := bodyOf(r.body, r.e.Properties.BodyEncoding)
	r.e.Body = body
	return err
}

type envelopeReader struct {
	jsonDecoder
	e             *Envelope
	body          any
	hasProperties bool
}

// field reads the value of a key. The last of duplicate keys counts.
func (r *envelopeReader) field(key string) (err error) {
	switch key {
	case "properties":
		r.hasProperties, r.e.Properties = true, Properties{}
		return r.object(r.property)
	case "content-type":
		r.e.ContentType, err = r.optionalText()
	case "content-encoding":
		r.e.ContentEncoding, err = r.optionalText()
	case "body":
		r.body, err = r.value()
	case "headers":
		r.e.Headers, err = r.headers()
	case "__type__":
		return errUnusual // it may stand for something else
	default:
		_, err = r.value()
	}
	return err
}

// usualHeaders is how many headers Celery sends, about: a map that grows to that is
// made three times.
const usualHeaders = 20

// headers reads an object of them, or nil for null.
func (r *envelopeReader) headers() (headers map[string]any, err error) {
	if r.space(); r.pos >= len(r.data) || r.data[r.pos] != '{' {
		return nil, r.null()
	}
	err = r.object(func(name string) (err error) {
		if headers == nil {
			headers = make(map[string]any, usualHeaders)
		}
		headers[name], err = r.value()
		return err
	})
	if _, typed := headers["__type__"]; typed && err == nil {
		err = errUnusual // it may stand for something else
	}
	return headers, err
}

func (r *envelopeReader) property(key string) (err error) {
	p := &r.e.Properties
	switch key {
	case "correlation_id":
		p.CorrelationID, err = r.optionalText()
	case "reply_to":
		p.ReplyTo, err = r.optionalText()
	case "delivery_mode":
		p.DeliveryMode, err = r.optionalNumber()
	case "priority":
		p.Priority, err = r.optionalNumber()
	case "body_encoding":
		p.BodyEncoding, err = r.optionalText()
	case "delivery_tag":
		p.DeliveryTag, err = r.optionalText()
	case "expiration":
		p.Expiration, err = r.optionalText()
	case "delivery_info":
		p.DeliveryInfo = DeliveryInfo{}
		return r.object(r.deliveryInfo)
	case "__type__":
		return errUnusual
	default:
		if p.Extra == nil {
			p.Extra = map[string]any{}
		}
		p.Extra[key], err = r.value()
	}
	return err
}

func (r *envelopeReader) deliveryInfo(key string) error {
	if key == "__type__" {
		return errUnusual
	}
	value, err := r.value()
	info := &r.e.Properties.DeliveryInfo
	switch key {
	case "exchange":
		info.Exchange, _ = value.(string)
	case "routing_key":
		info.RoutingKey, _ = value.(string)
	case "redelivered":
		info.Redelivered, _ = value.(bool)
	}
	return err
}

// object is members for one that is a value.
func (r *envelopeReader) object(visit func(key string) error) error {
	if err := r.item(); err != nil {
		return err
	}
	return r.members(visit)
}

// optionalText reads a string, or "" for null.
func (r *envelopeReader) optionalText() (string, error) {
	if err := r.item(); err != nil {
		return "", err
	}
	if r.space(); r.skip('"') {
		return r.text()
	}
	return "", r.null()
}

// optionalNumber reads a whole number, or 0 for null.
func (r *envelopeReader) optionalNumber() (int, error) {
	value, err := r.value()
	n, ok := intOf(value)
	if err == nil && !ok && value != nil {
		err = errUnusual
	}
	return n, err
}

func (r *envelopeReader) null() error {
	value, err := r.value()
	if err == nil && value != nil {
		err = errUnusual
	}
	return err
}
