package protocol

import (
	"encoding/base64"
	"errors"
	"strings"
)

// decodeBase64 reads base64 as Python's b64decode does: it passes over what is
// not of the alphabet, and stops where the padding is complete.
func decodeBase64(text string) ([]byte, error) {
	if data, err := base64.StdEncoding.DecodeString(text); err == nil {
		return data, nil
	}
	digits := make([]byte, 0, len(text))
	padding := 0
	for _, c := range []byte(text) {
		switch {
		case c == '=':
			if padding++; len(digits)%4 >= 2 && len(digits)%4+padding >= 4 {
				return base64.RawStdEncoding.DecodeString(string(digits))
			}
		case isBase64(c):
			digits, padding = append(digits, c), 0
		}
	}
	if len(digits)%4 != 0 {
		return nil, errors.New("incorrect padding of base64")
	}
	return base64.RawStdEncoding.DecodeString(string(digits))
}

func isBase64(c byte) bool {
	const others = "+/"
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(others, c) >= 0
}
