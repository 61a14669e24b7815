package config

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// masked stands for a secret, as in Celery's reports.
const masked = "********"

// secretNames is Celery's rule for settings whose values are not shown, and
// Sentry's DSN.
var secretNames = regexp.MustCompile(`(?i)API|TOKEN|KEY|SECRET|PASS|PROFANITIES_LIST|SIGNATURE|DATABASE|BEAT_DBURI|DSN`)

func isSecret(name string) bool { return secretNames.MatchString(name) }

// Secret is a text that no log line, error or %v shows.
type Secret struct {
	// A pointer: fmt prints it as an address where it can't call String.
	text *string
}

// NewSecret hides text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text, for the one place that sends it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsSet tells whether there is a text.
func (s Secret) IsSet() bool { return s.text != nil }

// String masks the text.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return masked
}

// GoString masks the text for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// MarshalText masks the text for encoders such as JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Redacted returns the value of every setting by name, fit to be shown: secrets
// are masked by Celery's rule, and so is what stands before the host in a URL.
// Times are in seconds.
func (s Settings) Redacted() map[string]any {
	shown := map[string]any{}
	for name, value := range s.effective() {
		shown[name] = redacted(name, value.decoded)
	}
	return shown
}

// String lists what was set, one setting a line, masked.
func (s Settings) String() string {
	effective := s.effective()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(effective)) {
		if value := effective[name]; value.source != nil {
			fmt.Fprintf(&text, "%s: %v\n", name, redacted(name, value.decoded))
		}
	}
	return text.String()
}

func (s Settings) effective() map[string]value {
	if s.values == nil {
		return nil
	}
	return s.values.settings
}

// GoString is String, so that %#v shows no secrets either.
func (s Settings) GoString() string { return s.String() }

func redacted(name string, value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		if v == "" {
			return v
		}
	case map[string]any:
		if len(v) == 0 {
			return v
		}
	}
	if isSecret(name) {
		return masked
	}
	return redactedInside(value)
}

func redactedInside(value any) any {
	switch v := value.(type) {
	case string:
		return maskURL(v)
	case time.Duration:
		return v.Seconds()
	case float64:
		if math.IsInf(v, 0) {
			return "inf" // JSON has no word for it
		}
		return v
	case []string:
		shown := make([]string, 0, len(v))
		for _, item := range v {
			shown = append(shown, maskURL(item))
		}
		return shown
	case []any:
		shown := make([]any, 0, len(v))
		for _, item := range v {
			shown = append(shown, redactedInside(item))
		}
		return shown
	case map[string]any:
		shown := make(map[string]any, len(v))
		for key, item := range v {
			shown[key] = redacted(key, item)
		}
		return shown
	default:
		return value
	}
}

// maskURL hides what stands before the host of a URL, a user name included,
// because KubeMQ's token may stand there, and the values of query parameters
// with a secret's name. A password may hold any sign, so everything up to the
// last "@" goes.
func maskURL(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "**" + rest[at:]
	}
	return scheme + "://" + maskQuery(rest)
}

func maskQuery(rest string) string {
	before, query, found := strings.Cut(rest, "?")
	if !found {
		return rest
	}
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		name, _, _ := strings.Cut(parameter, "=")
		if plain, err := url.QueryUnescape(name); err != nil || isSecret(plain) {
			parameters[i] = name + "=" + masked
		}
	}
	return before + "?" + strings.Join(parameters, "&")
}
