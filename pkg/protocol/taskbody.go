package protocol

// readBody reads the body of protocol 2.
func (r *taskReader) readBody(o DecodeOptions) (err error) {
	body := r.e.Body
	if r.compression != "" {
		if body, err = Decompress(r.compression, body, o.Limits.Body); err != nil {
			return err
		}
	}
	r.m.Protocol = Protocol2
	if r.e.ContentType != ContentTypeJSON {
		return r.readSerialized(body, o)
	}
	if !o.Accept.Allows(ContentTypeJSON) || len(body) > o.Limits.Body {
		return errUnusual
	}
	b := bodyReader{m: r.m}
	b.data, b.limits = body, o.Limits
	return b.read()
}

// readSerialized reads a body that is not JSON.
func (r *taskReader) readSerialized(body []byte, o DecodeOptions) error {
	payload, err := Deserialize(body, r.e.ContentType, r.e.ContentEncoding, o.Accept, o.Limits)
	if err != nil {
		return err
	}
	if hasArgs, err := containsArgs(payload); err != nil || hasArgs {
		return errUnusual
	}
	args, kwargs, embed, err := partsOf(payload)
	if err != nil {
		return err
	}
	r.m.Args, r.m.Kwargs = args, kwargs
	return r.m.readEmbed(embed)
}

// bodyReader reads a body of JSON, [args, kwargs, embed], without making a list of it and
// a map of embed.
type bodyReader struct {
	jsonDecoder
	m *Message
}

func (b *bodyReader) read() error {
	for _, step := range [...]func(*bodyReader) error{
		(*bodyReader).open, (*bodyReader).args, (*bodyReader).comma, (*bodyReader).kwargs, (*bodyReader).comma,
		(*bodyReader).embed, (*bodyReader).close,
	} {
		if err := step(b); err != nil {
			return err
		}
	}
	return nil
}

func (b *bodyReader) open() error {
	if err := b.begin(); err != nil {
		return err
	}
	if err := b.item(); err != nil {
		return err
	}
	if err := b.enter(); err != nil {
		return err
	}
	return b.expect('[')
}

func (b *bodyReader) close() error {
	if err := b.expect(']'); err != nil {
		return err
	}
	b.leave()
	return b.end()
}

func (b *bodyReader) comma() error { return b.expect(',') }

func (b *bodyReader) expect(c byte) error {
	if b.space(); !b.skip(c) {
		return errUnusual
	}
	return nil
}

func (b *bodyReader) args() (err error) {
	b.m.Args, err = b.value()
	if b.m.Args == any("args") {
		return errUnusual // by which Celery takes the body for one of protocol 1
	}
	return err
}

func (b *bodyReader) kwargs() error {
	v, err := b.value()
	kwargs, ok := v.(map[string]any)
	if err == nil && !ok {
		return errUnusual
	}
	b.m.Kwargs = kwargs
	return err
}

func (b *bodyReader) embed() error {
	if b.space(); b.pos < len(b.data) && b.data[b.pos] == '{' {
		if err := b.item(); err != nil {
			return err
		}
		return b.members(b.continuation)
	}
	v, err := b.value()
	if err == nil && v != nil {
		return errUnusual
	}
	return err
}

// continuation reads a value of embed. The last of duplicate keys counts.
func (b *bodyReader) continuation(name string) error {
	v, err := b.value()
	if err != nil {
		return err
	}
	switch name {
	case "callbacks":
		b.m.Callbacks, err = decodeSignatures(v)
	case "errbacks":
		b.m.Errbacks, err = decodeSignatures(v)
	case "chain":
		b.m.Chain, err = decodeSignatures(v)
	case "chord":
		b.m.Chord = nil
		if v != nil {
			chord, invalid := decodeSignature(v)
			b.m.Chord, err = &chord, invalid
		}
	case "__type__":
		return errUnusual // embed may stand for something else
	}
	return err
}
