package config

import (
	"fmt"
	"strings"
)

// NodeName expands a worker's node name (-n) as Celery does, for the machine
// called host: %h is host, %n its part before the first dot, %d the part after
// it, %i and %I the pool process's number (0 and nothing for the worker itself),
// %% a percent sign. Without an "@" the pattern is the host part and the name is
// "celery"; without a host part, host is. "" gives "celery@" and host.
func NodeName(pattern, host string) (string, error) {
	name, hostPart, found := strings.Cut(pattern, "@")
	if !found {
		name, hostPart = "", pattern
	}
	if name == "" {
		name = "celery"
	}
	if hostPart == "" {
		hostPart = host
	}
	return expand(name+"@"+hostPart, host)
}

func expand(pattern, host string) (string, error) {
	short, domain, _ := strings.Cut(host, ".")
	values := map[byte]string{'h': host, 'n': short, 'd': domain, 'i': "0", 'I': "", '%': "%"}
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' || i+1 == len(pattern) || !isWordOrPercent(pattern[i+1]) {
			out.WriteByte(pattern[i])
			continue
		}
		i++
		value, known := values[pattern[i]]
		if !known {
			return "", fmt.Errorf("config: node name %q: %%%c is not allowed: one of %%h, %%n, %%d, %%i, %%I, %%%%", pattern, pattern[i])
		}
		out.WriteString(value)
	}
	return out.String(), nil
}

// isWordOrPercent tells what Celery takes for a placeholder; a percent sign
// before anything else stays as it is.
func isWordOrPercent(c byte) bool {
	return c == '%' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
