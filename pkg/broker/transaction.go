package broker

import (
	"encoding/binary"
	"slices"

	"github.com/google/uuid"
)

// transaction is what one Get took and the client has not settled yet. It
// belongs to one stream, whose mutex guards it.
type transaction struct {
	open  map[int64]*delivery
	order []int64 // sequences as delivered; settled ones stay in it
	// member is a quirk, nil without.
	member *member
}

func newTransaction(deliveries []*delivery, member *member) *transaction {
	t := &transaction{open: make(map[int64]*delivery, len(deliveries)), member: member}
	for _, d := range deliveries {
		seq := int64(d.seq)
		t.open[seq] = d
		t.order = append(t.order, seq)
	}
	return t
}

// sequences lists what is open, in the order of delivery.
func (t *transaction) sequences() []int64 {
	return slices.DeleteFunc(slices.Clone(t.order), func(seq int64) bool { return t.open[seq] == nil })
}

// take takes the given sequences out of the transaction, up to the first that is
// not open.
func (t *transaction) take(sequences []int64) []*delivery {
	taken := make([]*delivery, 0, len(sequences))
	for _, seq := range sequences {
		d := t.open[seq]
		if d == nil {
			break
		}
		delete(t.open, seq)
		taken = append(taken, d)
	}
	return taken
}

// putBack opens deliveries again whose settlement failed.
func (t *transaction) putBack(deliveries []*delivery) {
	for _, d := range deliveries {
		t.open[int64(d.seq)] = d
	}
}

// transactionIDs makes the transaction ids of one stream: a random part and a
// counter. A closed transaction is therefore told from a foreign one without
// keeping anything of it, however long the stream lives.
type transactionIDs struct {
	random uuid.UUID
	last   uint64
}

func newTransactionIDs() transactionIDs {
	return transactionIDs{random: uuid.New()}
}

func (ids *transactionIDs) next() string {
	ids.last++
	return ids.format(ids.last)
}

// issued reports whether id is one that next returned.
func (ids *transactionIDs) issued(id string) bool {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return false
	}
	n := binary.BigEndian.Uint64(parsed[8:]) & counterMask
	return n >= 1 && n <= ids.last && id == ids.format(n)
}

// counterMask leaves the bits in which a UUID says its variant.
const counterMask = 1<<62 - 1

func (ids *transactionIDs) format(n uint64) string {
	id := ids.random
	variant := binary.BigEndian.Uint64(id[8:]) &^ counterMask
	binary.BigEndian.PutUint64(id[8:], variant|n)
	return id.String()
}
