package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Keys of the disk store: a letter for the kind, then the message's id, or the
// channel's kind and name.
const (
	keyState   = 's'
	keyPayload = 'p'
	keyChannel = 'c'
)

// errRecord is what decoding a damaged record returns.
var errRecord = errors.New("broker: damaged record in the store")

func messageKey(kind byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, id)
}

func decodeMessageKey(key []byte) (uint64, error) {
	if len(key) != 9 {
		return 0, fmt.Errorf("%w: key %x", errRecord, key)
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

func encodeChannelKey(c channelKey) []byte {
	key := append([]byte{keyChannel}, c.kind...)
	key = append(key, 0) // neither kinds nor names contain it
	return append(key, c.name...)
}

func decodeChannelKey(key []byte) (channelKey, error) {
	if len(key) > 0 {
		if kind, name, ok := strings.Cut(string(key[1:]), "\x00"); ok {
			return channelKey{kind: kind, name: name}, nil
		}
	}
	return channelKey{}, fmt.Errorf("%w: key %x", errRecord, key)
}

// encodeState encodes everything of m but the id: numbers as varints, in the
// order of the struct, then the channel.
func encodeState(m *storedMessage) []byte {
	value := binary.AppendUvarint(nil, m.seq)
	value = binary.AppendVarint(value, m.timestamp)
	value = binary.AppendVarint(value, m.expiresAt)
	value = binary.AppendVarint(value, m.dueAt)
	value = binary.AppendVarint(value, int64(m.count))
	value = binary.AppendVarint(value, int64(m.size))
	return append(value, m.channel...)
}

// decodeState is the inverse of encodeState.
func decodeState(id uint64, value []byte) (storedMessage, error) {
	d := stateDecoder{rest: value}
	m := storedMessage{id: id}
	m.seq = d.unsigned()
	m.timestamp = d.signed()
	m.expiresAt = d.signed()
	m.dueAt = d.signed()
	m.count = d.small()
	m.size = d.small()
	m.channel = string(d.rest)
	if d.failed || id == 0 || m.count < 0 || m.size < 0 || validateQueueName(m.channel) != nil {
		return storedMessage{}, fmt.Errorf("%w: state of message %d", errRecord, id)
	}
	return m, nil
}

// stateDecoder reads numbers off the front of rest. After a failure it reads
// zeros.
type stateDecoder struct {
	rest   []byte
	failed bool
}

func (d *stateDecoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *stateDecoder) signed() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

func (d *stateDecoder) small() int32 {
	v := d.signed()
	if v < math.MinInt32 || v > math.MaxInt32 {
		d.failed = true
		return 0
	}
	return int32(v)
}

func (d *stateDecoder) skip(n int) {
	if n <= 0 {
		d.failed = true
		d.rest = nil
		return
	}
	d.rest = d.rest[n:]
}
