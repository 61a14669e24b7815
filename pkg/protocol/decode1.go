package protocol

import "maps"

// bodyHeaders are the keys of a protocol 1 body that are headers in protocol 2.
// Celery does not take group_index over, which leaves the order of a chord's
// results undefined; nothing speaks for losing it.
var bodyHeaders = [...]string{
	"task", "id", "root_id", "parent_id", "group", "group_index", "shadow", "eta", "expires",
	"retries", "timelimit", "argsrepr", "kwargsrepr", "origin",
}

// protocol1 reads a body that is a map. Celery has two ways to do it. A body with
// the key args, which all that Python sends are, is read under the message's
// headers: a header beats the key of the same name. A body without args is read
// alone.
func (d *messageDecoder) protocol1(body map[string]any) (*Message, error) {
	kwargs, ok := body["kwargs"].(map[string]any)
	if _, present := body["kwargs"]; !ok && present {
		return nil, &InvalidTaskError{Reason: kwargsReason}
	}
	headers := make(map[string]any, len(bodyHeaders)+len(d.env.Headers))
	for _, name := range bodyHeaders {
		if value, ok := body[name]; ok {
			headers[name] = value
		}
	}
	// Celery 3.1 knew groups as task sets.
	if headers["group"] == nil {
		headers["group"] = body["taskset"]
	}
	m := d.newMessage(Protocol1)
	m.Args, m.Kwargs = []any{}, kwargs
	if kwargs == nil {
		m.Kwargs = map[string]any{}
	}
	args, hasArgs := body["args"]
	if hasArgs {
		m.Args = args
		maps.Copy(headers, d.env.Headers)
	}
	if err := m.readHeaders(headers); err != nil {
		return nil, err
	}
	if !hasArgs {
		m.ArgsRepr, m.KwargsRepr = ReprArgs(nil), Repr(m.Kwargs, ReprLimit)
	}
	m.CustomHeaders = customHeaders(d.env.Headers)
	return m, m.readEmbed(map[string]any{
		"callbacks": body["callbacks"], "errbacks": body["errbacks"], "chord": body["chord"],
	})
}
