package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestYAMLMergeBomb: merges of merges of nothing multiply without a value.
func TestYAMLMergeBomb(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("- &a0 {}\n")
	for level := 1; level <= 12; level++ {
		one := fmt.Sprintf("*a%d", level-1)
		fmt.Fprintf(&bomb, "- &a%d {<<: [%s]}\n", level, strings.Repeat(one+",", 9)+one)
	}
	limits := DefaultLimits()
	limits.Items = 10_000
	_, err := decodeYAML([]byte(bomb.String()), limits)
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
}

// TestXZEmptyBlocks: each block costs a decoder, and an empty one sixteen bytes.
func TestXZEmptyBlocks(t *testing.T) {
	header := []byte{2, 0, 0x21, 1, 0, 0, 0, 0}
	block := binary.LittleEndian.AppendUint32(bytes.Clone(header), crc32.ChecksumIEEE(header))
	block = append(block, 0, 0, 0, 0)
	body := append([]byte(xzMagic), 0, 0, 0, 0, 0, 0)
	body = append(body, bytes.Repeat(block, maxXZBlocks+1)...)
	_, err := Decompress("xz", body, DefaultLimits().Body)
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
}
