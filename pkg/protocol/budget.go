package protocol

// budget counts what a document has used of its limits.
type budget struct {
	limits       Limits
	depth, items int
}

// enter counts one level of nesting; leave gives it back.
func (b *budget) enter() error {
	b.depth++
	if b.depth > b.limits.Depth {
		return &LimitError{What: "levels", Limit: b.limits.Depth}
	}
	return nil
}

func (b *budget) leave() { b.depth-- }

// mapCost is what a map counts beside its values: an empty one takes the memory of
// eight of them.
const mapCost = 8

// item counts one value.
func (b *budget) item() error { return b.spend(1) }

func (b *budget) spend(items int) error {
	b.items += items
	if b.items > b.limits.Items {
		return &LimitError{What: "values", Limit: b.limits.Items}
	}
	return nil
}

// enterMap is enter for a map.
func (b *budget) enterMap() error {
	if err := b.spend(mapCost); err != nil {
		return err
	}
	return b.enter()
}
