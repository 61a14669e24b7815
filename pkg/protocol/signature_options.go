package protocol

import (
	"maps"
	"slices"
	"time"
)

// CallOptions are the options of a signature: what apply_async would be given
// beside the arguments.
type CallOptions struct {
	// TaskID, RootID, ParentID and GroupID are empty where the options don't say.
	TaskID, RootID, ParentID, GroupID string
	GroupIndex                        *int
	// Retries and ReplacedTaskNesting begin at 0.
	Retries, ReplacedTaskNesting int
	// ETA is not before; Countdown, if not 0, beats it and counts from the moment of
	// publishing.
	ETA       time.Time
	Countdown time.Duration
	// Expires is when the task is not wanted any more; ExpiresIn, if not nil, beats it
	// and counts from the moment of publishing.
	Expires   time.Time
	ExpiresIn *time.Duration
	// TimeLimit and SoftTimeLimit are 0 for none.
	TimeLimit, SoftTimeLimit time.Duration
	// Link, LinkError, Chain (the last element is the next step) and Chord are the
	// continuations of the task that is called.
	Link, LinkError, Chain []Signature
	Chord                  *Signature
	// Queue, Exchange and RoutingKey say where to.
	Queue, Exchange, RoutingKey string
	// Priority is nil where the options don't say.
	Priority     *int
	ReplyTo      string
	Shadow       string
	IgnoreResult *bool
	// ArgsRepr, KwargsRepr and Origin replace what the publisher would say.
	ArgsRepr, KwargsRepr, Origin string
	// Headers are custom headers.
	Headers map[string]any
	// Serializer and Compression are names or MIME types, empty for the publisher's.
	Serializer, Compression string
	// Transient asks for delivery mode 1.
	Transient bool
	// StampedHeaders names the stamps, Stamps holds them.
	StampedHeaders []string
	Stamps         map[string]any
	// AddToParent lists the task among the children of the one that published it.
	AddToParent bool
	// Properties are the options that Celery has no name for; it makes them
	// properties of the message.
	Properties map[string]any
}

// publisherOptions are apply_async's options about the publisher itself. They are
// objects of a Python process or tell it how to retry, and say nothing of the
// message.
var publisherOptions = []string{
	"producer", "publisher", "connection", "router", "result_cls", "retry", "retry_policy", "declare", "exchange_type",
	"event_dispatcher", "timeout", "confirm_timeout", "route_name", "task_type", "immediate", "mandatory",
}

// DecodeCallOptions reads the options of a signature; null ones are as if they
// were missing, as in Celery. It returns an *InvalidTaskError for an option of the
// wrong type.
func DecodeCallOptions(options map[string]any) (CallOptions, error) {
	r := optionReader{fieldReader: fieldReader{fields: options}}
	o := CallOptions{
		TaskID: r.taken("task_id"), RootID: r.taken("root_id"), ParentID: r.taken("parent_id"), GroupID: r.taken("group_id"),
		Queue: r.taken("queue"), Exchange: r.taken("exchange"), RoutingKey: r.taken("routing_key"),
		ReplyTo: r.taken("reply_to"), Shadow: r.taken("shadow"), Origin: r.taken("origin"),
		ArgsRepr: r.taken("argsrepr"), KwargsRepr: r.taken("kwargsrepr"),
		Serializer: r.taken("serializer"), Compression: r.taken("compression"),
	}
	o.GroupIndex, o.Priority = r.optionalNumber("group_index"), r.optionalNumber("priority")
	o.Retries, o.ReplacedTaskNesting = r.number("retries"), r.number("replaced_task_nesting")
	o.IgnoreResult, o.Headers = r.optionalFlag("ignore_result"), r.mapping("headers")
	r.readTimes(&o)
	r.readContinuations(&o)
	r.readStamps(&o)
	o.Transient = options["delivery_mode"] == "transient" || options["delivery_mode"] == int64(1)
	inParent := r.optionalFlag("add_to_parent")
	o.AddToParent = inParent == nil || *inParent
	if r.err != nil {
		return CallOptions{}, invalidTaskf("invalid option of a signature: %v", r.err)
	}
	o.Properties = r.properties(o.StampedHeaders)
	return o, nil
}

// optionReader is a fieldReader that knows the options it has read as texts.
type optionReader struct {
	fieldReader
	texts []string
}

func (r *optionReader) taken(name string) string {
	r.texts = append(r.texts, name)
	return r.text(name)
}

func (r *optionReader) readTimes(o *CallOptions) {
	o.ETA = r.moment("eta")
	o.Countdown, _ = r.seconds("countdown")
	if seconds, ok := r.seconds("expires"); ok {
		o.ExpiresIn = &seconds
	} else {
		o.Expires = r.moment("expires")
	}
	o.TimeLimit, o.SoftTimeLimit = r.limit("time_limit"), r.limit("soft_time_limit")
}

// moment reads a time; the empty text is none, as everything that is false in
// Python.
func (r *optionReader) moment(name string) time.Time {
	if v := r.fields[name]; v == nil || v == "" {
		return time.Time{}
	}
	t, err := parseTime(r.fields[name])
	if err != nil {
		r.fail(name, "a time")
		return time.Time{}
	}
	return notZero(t)
}

// seconds reads a number of seconds, which may be negative; ok is false for null
// and for what is no number.
func (r *optionReader) seconds(name string) (d time.Duration, ok bool) {
	switch v := r.fields[name].(type) {
	case nil:
		return 0, false
	case int64:
		if v < 0 {
			d, ok = secondsOf(-v)
			return -d, ok
		}
	case float64:
		if v < 0 {
			d, ok = secondsOf(-v)
			return -d, ok
		}
	}
	d, ok = secondsOf(r.fields[name])
	if !ok && name == "countdown" {
		r.fail(name, "a number of seconds")
	}
	return d, ok
}

func (r *optionReader) limit(name string) time.Duration {
	d, ok := secondsOf(r.fields[name])
	if !ok {
		r.fail(name, "a number of seconds")
	}
	return d
}

func (r *optionReader) readContinuations(o *CallOptions) {
	for name, into := range map[string]*[]Signature{"link": &o.Link, "link_error": &o.LinkError, "chain": &o.Chain} {
		signatures, err := decodeSignatures(r.fields[name])
		if err != nil {
			r.fail(name, "signatures: "+err.Error())
		}
		*into = signatures
	}
	if r.fields["chord"] == nil {
		return
	}
	chord, err := decodeSignature(r.fields["chord"])
	if err != nil {
		r.fail("chord", "a signature: "+err.Error())
	}
	o.Chord = &chord
}

func (r *optionReader) readStamps(o *CallOptions) {
	o.StampedHeaders = r.fieldReader.texts("stamped_headers")
	for _, name := range o.StampedHeaders {
		stamp, ok := r.fields[name]
		if !ok {
			r.fail(name, "a stamp")
		}
		if o.Stamps == nil {
			o.Stamps = map[string]any{}
		}
		o.Stamps[name] = stamp
	}
}

// properties are the options that have no meaning for Celery, nil if there are
// none.
func (r *optionReader) properties(stamps []string) map[string]any {
	known := slices.Concat(r.texts, publisherOptions, stamps, []string{
		"group_index", "priority", "retries", "replaced_task_nesting", "ignore_result", "headers", "eta", "countdown",
		"expires", "time_limit", "soft_time_limit", "link", "link_error", "chain", "chord", "stamped_headers",
		"delivery_mode", "add_to_parent",
	})
	rest := maps.Clone(r.fields)
	maps.DeleteFunc(rest, func(name string, value any) bool { return value == nil || slices.Contains(known, name) })
	if len(rest) == 0 {
		return nil
	}
	return rest
}
