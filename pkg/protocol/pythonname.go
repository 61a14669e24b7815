package protocol

import (
	"strings"
	"unicode"
)

// PythonName turns the name of a Go field into the one Python code would use:
// OrderID becomes order_id, HTTPServer http_server, OrderIDs order_ids.
func PythonName(name string) string {
	runes := []rune(name)
	var out strings.Builder
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && startsWord(runes, i) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

// startsWord tells whether the upper-case letter at i begins a word: it follows a
// small letter or digit, or ends a row of capitals and a small letter follows. An
// s alone is the plural of the row ("IDs") and begins nothing.
func startsWord(runes []rune, i int) bool {
	if runes[i-1] == '_' {
		return false
	}
	if !unicode.IsUpper(runes[i-1]) {
		return true
	}
	if i+1 == len(runes) || !unicode.IsLower(runes[i+1]) {
		return false
	}
	plural := runes[i+1] == 's' && (i+2 == len(runes) || unicode.IsUpper(runes[i+2]))
	return !plural
}
