package protocol

// DecodeTask is DecodeEnvelope and DecodeMessage in one, with their errors. Where it
// returns a message, the envelope's Headers are nil: they are in the message. An envelope
// whose message it can't decode has them, and is nil only where the envelope itself is
// what can't be read.
func DecodeTask(data []byte, o DecodeOptions) (*Envelope, *Message, error) {
	if e, m, ok := readTask(data, o); ok {
		return e, m, nil
	}
	return decodeAnyTask(data, o)
}

// decodeAnyTask decodes a message of any form.
func decodeAnyTask(data []byte, o DecodeOptions) (*Envelope, *Message, error) {
	e, err := DecodeEnvelope(data, o.Limits)
	if err != nil {
		return nil, nil, err
	}
	m, err := DecodeMessage(e, o)
	if err != nil {
		return e, nil, err
	}
	e.Headers = nil
	return e, m, nil
}

// readTask reads a message of the form that Celery writes, protocol 2, straight into its
// fields: a map of the headers is what costs most in decoding a small one. ok is false where it has another form or an error: then decodeAnyTask must have a
// look. What both take is the same from both (FuzzTaskWays).
func readTask(data []byte, o DecodeOptions) (e *Envelope, m *Message, ok bool) {
	if len(data) > o.Limits.Envelope {
		return nil, nil, false
	}
	r := taskReader{m: &Message{}}
	r.e, r.data, r.limits = &Envelope{}, data, o.Limits
	if r.read(r.field) != nil || r.m.Task == "" || (o.Known != nil && !o.Known(r.m.Task)) {
		return nil, nil, false
	}
	r.m.describe(r.e, r.compression, r.redelivered)
	if r.readBody(o) != nil {
		return nil, nil, false
	}
	return r.e, r.m, true
}

// taskReader reads an envelope's headers into a message.
type taskReader struct {
	envelopeReader
	m           *Message
	compression string
	redelivered bool
}

func (r *taskReader) field(key string) error {
	if key != "headers" {
		return r.envelopeReader.field(key)
	}
	*r.m, r.compression, r.redelivered = Message{}, "", false // the last of duplicate keys counts
	if err := r.object(r.header); err != nil {
		return err
	}
	if r.m.Task == "" || r.m.ID == "" {
		return errUnusual // protocol 1, most likely
	}
	return nil
}

// header reads the value of one into its field. Each has the meaning that
// Message.readHeaders gives it.
func (r *taskReader) header(name string) (err error) {
	m := r.m
	switch name {
	case "task":
		m.Task, err = r.optionalText()
	case "id":
		m.ID, err = r.optionalText()
	case "shadow":
		m.Shadow, err = r.optionalText()
	case "root_id":
		m.RootID, err = r.optionalText()
	case "parent_id":
		m.ParentID, err = r.optionalText()
	case "group":
		m.GroupID, err = r.optionalText()
	case "argsrepr":
		m.ArgsRepr, err = r.optionalText()
	case "kwargsrepr":
		m.KwargsRepr, err = r.optionalText()
	case "origin":
		m.Origin, err = r.optionalText()
	case "compression":
		r.compression, err = r.optionalText()
	case "retries":
		m.Retries, err = r.count()
	case "replaced_task_nesting":
		m.ReplacedTaskNesting, err = r.count()
	case "timelimit":
		return r.timeLimits()
	default:
		return r.rareHeader(name)
	}
	return err
}

// rareHeader reads a header that is null in most messages, or is not Celery's.
func (r *taskReader) rareHeader(name string) error {
	v, err := r.value()
	if err != nil {
		return err
	}
	m, ok := r.m, true
	switch name {
	case "eta":
		m.ETA, err = timeHeader("ETA", v)
	case "expires":
		m.Expires, err = timeHeader("expires", v)
	case "group_index":
		m.GroupIndex, ok = indexOf(v)
	case "ignore_result":
		m.IgnoreResult, ok = flagOf(v)
	case "stamped_headers":
		list, isList := v.([]any)
		m.StampedHeaders, ok = textsOf(list)
		ok = ok && (isList || v == nil)
	case "stamps":
		m.Stamps, ok = v.(map[string]any)
		ok = ok || v == nil
	case "redelivered":
		r.redelivered, _ = v.(bool)
	case "lang":
	case "__type__":
		return errUnusual // the headers may stand for something else
	default:
		if m.CustomHeaders == nil {
			m.CustomHeaders = map[string]any{}
		}
		m.CustomHeaders[name] = v
	}
	if !ok {
		return errUnusual
	}
	return err
}

// count reads a whole number from 0 on, or 0 for null.
func (r *taskReader) count() (int, error) {
	n, err := r.optionalNumber()
	if err == nil && n < 0 {
		err = errUnusual
	}
	return n, err
}

// timeLimits reads [null, null], which most messages have, without making a list of it.
func (r *taskReader) timeLimits() (err error) {
	if err = r.item(); err != nil {
		return err
	}
	const none, values = "[null, null]", 2
	if r.space(); len(r.data)-r.pos >= len(none) && string(r.data[r.pos:r.pos+len(none)]) == none {
		r.pos += len(none)
		r.m.TimeLimit, r.m.SoftTimeLimit = 0, 0
		return r.spend(values)
	}
	limits, err := r.value()
	if err == nil {
		r.m.TimeLimit, r.m.SoftTimeLimit, err = timeLimits(limits)
	}
	return err
}

// indexOf is a position, nil for none.
func indexOf(v any) (*int, bool) {
	if v == nil {
		return nil, true
	}
	n, ok := intOf(v)
	return &n, ok
}
