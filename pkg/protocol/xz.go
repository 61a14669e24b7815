package protocol

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"slices"

	"github.com/ulikunitz/xz/lzma"
)

// The .xz container, as Python's lzma module writes it. It is read here, and only
// the LZMA2 data in it by the library, because the container names a dictionary of
// up to 4 GiB that the library would allocate before it reads a byte of data. The
// sizes of the LZMA2 chunks are known without decompressing them: so is that of
// the output, and a dictionary never needs to be larger than that.
const (
	xzMagic       = "\xFD7zXZ\x00"
	xzHeaderSize  = 12
	xzFooterMagic = "YZ"
)

var (
	errXZ          = errors.New("not an xz stream")
	errXZTruncated = errors.New("the xz stream ends early")
)

// maxXZBlocks bounds the blocks of one stream. Python's lzma writes one.
const maxXZBlocks = 4096

// unxz reads one stream of LZMA2 blocks.
func unxz(body []byte, limit int) ([]byte, error) {
	if len(body) < xzHeaderSize || string(body[:len(xzMagic)]) != xzMagic || body[6] != 0 {
		return nil, errXZ
	}
	check, err := xzCheck(body[7])
	if err != nil {
		return nil, err
	}
	var out []byte
	rest := body[xzHeaderSize:]
	for blocks := 1; ; blocks++ {
		// Each makes a decoder, and sixteen bytes make an empty one.
		if blocks > maxXZBlocks {
			return nil, &LimitError{What: "blocks of an xz stream", Limit: maxXZBlocks}
		}
		if len(rest) == 0 {
			return nil, errXZTruncated
		}
		if rest[0] == 0 {
			return out, checkXZEnd(rest)
		}
		block, err := xzBlock(rest, check)
		if err != nil {
			return nil, err
		}
		if block.size > limit-len(out) {
			return nil, errTooLong(limit)
		}
		if out, err = block.appendTo(out, check); err != nil {
			return nil, err
		}
		rest = rest[block.length:]
	}
}

// xzCheck makes the hash that a stream's blocks end in, nil for none.
func xzCheck(flags byte) (hash.Hash, error) {
	switch flags {
	case 0x00:
		return nil, nil
	case 0x01:
		return crc32.NewIEEE(), nil
	case 0x04:
		return crc64.New(crc64.MakeTable(crc64.ECMA)), nil
	case 0x0A:
		return sha256.New(), nil
	}
	return nil, errors.New("unknown check of an xz stream")
}

// checkXZEnd checks that the index, whose first byte is 0, and the footer are all
// that is left: a second stream would be lost without a word otherwise.
func checkXZEnd(rest []byte) error {
	if len(rest) < xzHeaderSize || string(rest[len(rest)-2:]) != xzFooterMagic {
		return errXZTruncated
	}
	footer := rest[len(rest)-xzHeaderSize:]
	index := (int64(binary.LittleEndian.Uint32(footer[4:8])) + 1) * 4
	if index != int64(len(rest)-xzHeaderSize) {
		return errors.New("the index of the xz stream does not fit: more than one stream?")
	}
	return nil
}

// xzBlockData is one block: its LZMA2 data, the sum of their output, the check,
// and how many bytes of the stream it takes.
type xzBlockData struct {
	data, sum    []byte
	size, length int
}

func xzBlock(rest []byte, check hash.Hash) (xzBlockData, error) {
	header := (int(rest[0]) + 1) * 4
	if len(rest) < header {
		return xzBlockData{}, errXZTruncated
	}
	if crc32.ChecksumIEEE(rest[:header-4]) != binary.LittleEndian.Uint32(rest[header-4:header]) {
		return xzBlockData{}, errors.New("a header of an xz block is damaged")
	}
	if err := checkXZBlockHeader(rest[1 : header-4]); err != nil {
		return xzBlockData{}, err
	}
	data, size, err := lzma2Extent(rest[header:])
	if err != nil {
		return xzBlockData{}, err
	}
	end := (header + len(data) + 3) &^ 3
	sum := 0
	if check != nil {
		sum = check.Size()
	}
	if len(rest) < end+sum {
		return xzBlockData{}, errXZTruncated
	}
	return xzBlockData{data: data, sum: rest[end : end+sum], size: size, length: end + sum}, nil
}

// checkXZBlockHeader checks that LZMA2 is the only filter.
func checkXZBlockHeader(header []byte) error {
	const hasCompressedSize, hasSize, filters = 0x40, 0x80, 0x03
	flags, fields := header[0], header[1:]
	for _, flag := range []byte{hasCompressedSize, hasSize} {
		if flags&flag == 0 {
			continue
		}
		_, n := binary.Uvarint(fields)
		if n <= 0 {
			return errXZTruncated
		}
		fields = fields[n:]
	}
	if flags&filters != 0 || !bytes.HasPrefix(fields, []byte{0x21, 0x01}) {
		return errors.New("a filter other than LZMA2 in an xz block")
	}
	return nil
}

// lzma2Extent walks over LZMA2 chunks: it returns them and how much comes out of
// them.
func lzma2Extent(rest []byte) (data []byte, size int, err error) {
	pos := 0
	for pos < len(rest) {
		control := rest[pos]
		if control == 0 {
			return rest[:pos+1], size, nil
		}
		if pos+6 > len(rest) {
			break
		}
		length := int(binary.BigEndian.Uint16(rest[pos+1:])) + 1
		switch {
		case control >= 0x80:
			size += length + int(control&0x1F)<<16
			pos += 5 + int(binary.BigEndian.Uint16(rest[pos+3:])) + 1
			if control >= 0xC0 {
				pos++
			}
		case control <= 2:
			size += length
			pos += 3 + length
		default:
			return nil, 0, errors.New("an unknown LZMA2 chunk")
		}
	}
	return nil, 0, errXZTruncated
}

// appendTo decompresses the block and verifies its check.
func (b xzBlockData) appendTo(out []byte, check hash.Hash) ([]byte, error) {
	r, err := lzma.Reader2Config{DictCap: max(b.size, lzma.MinDictCap)}.NewReader2(bytes.NewReader(b.data))
	if err != nil {
		return nil, err
	}
	block, err := readAll(r, b.size)
	if err != nil {
		return nil, err
	}
	if check != nil {
		check.Reset()
		_, _ = check.Write(block)
		// The CRCs are little-endian in the stream, SHA-256 is as it is.
		sum := check.Sum(nil)
		if len(sum) <= 8 {
			slices.Reverse(sum)
		}
		if !bytes.Equal(sum, b.sum) {
			return nil, errors.New("the check of an xz block does not match")
		}
	}
	return append(out, block...), nil
}
