package protocol

import (
	"cmp"
	"maps"
	"time"
)

// EncodeOptions say how a message goes out.
type EncodeOptions struct {
	// Protocol is Protocol2, the default, or Protocol1.
	Protocol int
	// Serializer and Compression are names or MIME types. Empty ones are what the
	// message came with: its ContentType, else JSON; its Compression, else none.
	Serializer, Compression string
}

// EncodeMessage makes the envelope of a message. The correlation id is the task
// id, the routing key the queue, the delivery mode persistent. The caller sets
// the delivery tag, and the expiration if the broker shall drop the message. An
// empty root id becomes the task's own, as Celery sends it; empty reprs are made
// here.
//
// It returns an *EncodeError for arguments that the serializer has no form for,
// for an unknown serializer or compression, and for times outside the years 1 to
// 9999.
func EncodeMessage(m *Message, o EncodeOptions) (*Envelope, error) {
	if err := m.checkTimes(); err != nil {
		return nil, err
	}
	headers, payload := m.headers2(), m.body2()
	if o.Protocol == Protocol1 {
		headers, payload = maps.Clone(m.CustomHeaders), m.body1()
	}
	body, contentType, contentEncoding, err := Serialize(cmp.Or(o.Serializer, m.ContentType), payload)
	if err != nil {
		return nil, err
	}
	env := &Envelope{
		Body: body, ContentType: contentType, ContentEncoding: contentEncoding,
		Headers: orEmptyMap(headers), Properties: m.properties(),
	}
	if compression := cmp.Or(o.Compression, m.Compression); compression != "" {
		if err := env.compress(compression); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// checkTimes refuses an ETA or Expires that Python can't hold.
func (m *Message) checkTimes() error {
	for name, t := range map[string]time.Time{"eta": m.ETA, "expires": m.Expires} {
		if err := checkTime(t); err != nil {
			return inPath(name, err)
		}
	}
	return nil
}

// compress replaces the body and says so in the headers.
func (e *Envelope) compress(compression string) error {
	body, mime, err := Compress(compression, e.Body)
	if err != nil {
		return err
	}
	e.Body, e.Headers["compression"] = body, mime
	return nil
}

func (m *Message) properties() Properties {
	const persistent = 2
	return Properties{
		CorrelationID: m.ID,
		ReplyTo:       m.ReplyTo,
		DeliveryMode:  persistent,
		Priority:      m.Priority,
		DeliveryInfo:  DeliveryInfo{RoutingKey: m.Queue},
		BodyEncoding:  "base64",
	}
}

// headers2 are the headers of protocol 2: all that Celery sends, null where the
// message has none. A custom header never replaces one of Celery's.
func (m *Message) headers2() map[string]any {
	headers := map[string]any{
		// "py" is what every reader has seen so far; nothing looks at it.
		"lang":                  "py",
		"task":                  m.Task,
		"id":                    m.ID,
		"shadow":                orNull(m.Shadow),
		"eta":                   timeValue(m.ETA),
		"expires":               timeValue(m.Expires),
		"group":                 orNull(m.GroupID),
		"group_index":           groupIndexValue(m.GroupIndex),
		"retries":               int64(m.Retries),
		"timelimit":             m.timeLimitValue(),
		"root_id":               m.rootID(),
		"parent_id":             orNull(m.ParentID),
		"argsrepr":              m.argsRepr(),
		"kwargsrepr":            m.kwargsRepr(),
		"origin":                orNull(m.Origin),
		"ignore_result":         flagValue(m.IgnoreResult),
		"replaced_task_nesting": int64(m.ReplacedTaskNesting),
		"stamped_headers":       textsValue(m.StampedHeaders),
		"stamps":                orEmptyMap(m.Stamps),
	}
	for name, value := range m.CustomHeaders {
		if !isCeleryHeader(name) {
			headers[name] = value
		}
	}
	return headers
}

func (m *Message) body2() any {
	return []any{m.argsValue(), orEmptyMap(m.Kwargs), map[string]any{
		"callbacks": signatureValues(m.Callbacks),
		"errbacks":  signatureValues(m.Errbacks),
		"chain":     signatureValues(m.Chain),
		"chord":     m.chordValue(),
	}}
}

// body1 is the whole of protocol 1. It has no chain: the next step is a callback
// whose own links hold the rest.
func (m *Message) body1() any {
	callbacks := m.Callbacks
	if next, ok := linkedChain(m.Chain); ok {
		callbacks = append(callbacks[:len(callbacks):len(callbacks)], next)
	}
	body := map[string]any{
		"task":        m.Task,
		"id":          m.ID,
		"args":        m.argsValue(),
		"kwargs":      orEmptyMap(m.Kwargs),
		"group":       orNull(m.GroupID),
		"group_index": groupIndexValue(m.GroupIndex),
		"retries":     int64(m.Retries),
		"eta":         timeValue(m.ETA),
		"expires":     timeValue(m.Expires),
		"utc":         true,
		"callbacks":   signatureValues(callbacks),
		"errbacks":    signatureValues(m.Errbacks),
		"timelimit":   m.timeLimitValue(),
		"taskset":     orNull(m.GroupID),
		"chord":       m.chordValue(),
	}
	// No producer of protocol 1 sends these, but every reader takes them.
	for name, value := range map[string]string{
		"root_id": m.RootID, "parent_id": m.ParentID, "shadow": m.Shadow, "origin": m.Origin,
	} {
		if value != "" {
			body[name] = value
		}
	}
	return body
}

// linkedChain folds a chain, whose last element is the next step, into that step
// with the others as nested links.
func linkedChain(chain []Signature) (Signature, bool) {
	if len(chain) == 0 {
		return Signature{}, false
	}
	step := chain[0]
	for _, earlier := range chain[1:] {
		options := orEmptyMap(maps.Clone(earlier.Options))
		options["link"] = append(linksOf(options["link"]), step.Value())
		earlier.Options = options
		step = earlier
	}
	return step, true
}

// linksOf is a copy of a link option, which is one signature or a list.
func linksOf(link any) []any {
	switch link := link.(type) {
	case nil:
		return nil
	case []any:
		return append([]any{}, link...)
	}
	return []any{link}
}

// argsValue writes missing args as the empty list they mean.
func (m *Message) argsValue() any {
	if m.Args == nil {
		return []any{}
	}
	return m.Args
}

func (m *Message) chordValue() any {
	if m.Chord == nil {
		return nil
	}
	return m.Chord.Value()
}

func (m *Message) timeLimitValue() []any {
	return []any{secondsValue(m.TimeLimit), secondsValue(m.SoftTimeLimit)}
}

func (m *Message) rootID() string {
	if m.RootID == "" {
		return m.ID
	}
	return m.RootID
}

func (m *Message) argsRepr() string {
	if m.ArgsRepr != "" {
		return m.ArgsRepr
	}
	if args, ok := m.argsValue().([]any); ok {
		return ReprArgs(args)
	}
	return Repr(m.Args, ReprLimit)
}

func (m *Message) kwargsRepr() string {
	if m.KwargsRepr != "" {
		return m.KwargsRepr
	}
	return Repr(orEmptyMap(m.Kwargs), ReprLimit)
}

func timeValue(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return FormatTime(t)
}

func flagValue(flag *bool) any {
	if flag == nil {
		return nil
	}
	return *flag
}

func textsValue(texts []string) any {
	if texts == nil {
		return nil
	}
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}
