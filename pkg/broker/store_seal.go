package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// sealFile holds what an orderly stop left in the store. A log whose end was cut
// off looks like one that a crash ended, and Pebble takes it so; after a stop it
// must not happen.
const sealFile = "STOPPED"

// seal is what a store holds: the number of its messages and a checksum of their
// states.
type seal struct {
	messages uint64
	checksum uint32
}

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// add counts the state of a message, in the order of the keys.
func (s *seal) add(key, value []byte) {
	s.messages++
	s.checksum = crc32.Update(s.checksum, castagnoli, binary.BigEndian.AppendUint32(nil, uint32(len(value))))
	s.checksum = crc32.Update(s.checksum, castagnoli, key)
	s.checksum = crc32.Update(s.checksum, castagnoli, value)
}

func (s seal) String() string {
	return fmt.Sprintf("messages %d checksum %08x", s.messages, s.checksum)
}

// writeSeal seals a store that is closed.
func writeSeal(dir string, s seal) error {
	if err := writeDurably(dir, filepath.Join(dir, sealFile), s.String()+"\n"); err != nil {
		return fmt.Errorf("broker: seal the store: %w", err)
	}
	return nil
}

// breakSeal compares what was found in an opened store with its seal, and removes
// that before anything is written. A store without one was not stopped but crashed.
func breakSeal(dir string, found seal) error {
	path := filepath.Join(dir, sealFile)
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("broker: read the seal of the store: %w", err)
	}
	var left seal
	if _, err := fmt.Sscanf(string(text), "messages %d checksum %08x\n", &left.messages, &left.checksum); err != nil {
		return fmt.Errorf("%w: %s says %.100q (remove it to go on unchecked)", ErrDamaged, path, text)
	}
	if left != found {
		return fmt.Errorf("%w: in %s are %d messages, but by %s there were %d when the broker stopped: %s, found %s "+
			"(restore the directory, or remove that file to go on with what is there)",
			ErrDamaged, enginePath(dir), found.messages, path, left.messages, left, found)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("broker: break the seal of the store: %w", err)
	}
	return syncDir(dir)
}
