package kubemq

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
)

// ParseURL reads kubemq-celery's broker URLs into the Config they stand for:
//
//	kubemq://[:token@]host[:port]       plaintext
//	kubemq+tls://[:token@]host[:port]   TLS
//
// The token stands where the password does, or the user's name if there is no
// password, and is percent-decoded. A path (Celery's virtual host) means nothing
// to KubeMQ and is ignored. Errors never repeat the URL, which holds the token.
func ParseURL(raw string) (Config, error) {
	parsed, err := url.Parse(raw)
	if err != nil {
		// url.Error quotes the whole URL.
		var detail *url.Error
		if errors.As(err, &detail) {
			err = detail.Err
		}
		return Config{}, fmt.Errorf("kubemq: broker url: %w", err)
	}
	var config Config
	switch parsed.Scheme {
	case "kubemq":
	case "kubemq+tls":
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return Config{}, fmt.Errorf("kubemq: broker url: scheme %q is not kubemq or kubemq+tls", parsed.Scheme)
	}
	if parsed.Opaque != "" {
		return Config{}, errors.New("kubemq: broker url: expected // after the scheme")
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" {
		return Config{}, errors.New("kubemq: broker url: parameters are not supported, use broker_transport_options")
	}
	port := DefaultPort
	if text := parsed.Port(); text != "" {
		port, err = strconv.Atoi(text)
		if err != nil || port < 1 || port > 65535 {
			return Config{}, fmt.Errorf("kubemq: broker url: port %q is not between 1 and 65535", text)
		}
	}
	host := parsed.Hostname()
	if host == "" {
		host = "localhost"
	}
	config.Address = net.JoinHostPort(host, strconv.Itoa(port))
	if _, _, err := net.SplitHostPort(config.Address); err != nil {
		return Config{}, fmt.Errorf("kubemq: broker url: host %q: %w", host, err)
	}
	if password, _ := parsed.User.Password(); password != "" {
		config.AuthToken = password
	} else {
		config.AuthToken = parsed.User.Username()
	}
	return config, nil
}
