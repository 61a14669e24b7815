package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// endpoint is what a broker or backend URL says.
type endpoint struct {
	embedded bool
	address  string
	tls      bool
	token    string
}

// notYetSchemes are Celery's schemes of brokers that come next.
var notYetSchemes = map[string]string{
	"amqp": "RabbitMQ", "amqps": "RabbitMQ", "pyamqp": "RabbitMQ", "librabbitmq": "RabbitMQ", "rpc": "RabbitMQ",
	"redis": "Redis", "rediss": "Redis", "redis+socket": "Redis", "sentinel": "Redis",
}

const allowedURLs = "kubemq://host:port, kubemq+tls://host:port or embedded://"

// parseEndpoint reads a URL. kubemq-celery's asynchronous schemes name the same
// servers. Messages never quote a URL that could not be parsed: a token may
// stand anywhere in it.
func parseEndpoint(text string) (endpoint, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return endpoint{}, errors.New("not a URL with a scheme: " + allowedURLs)
	}
	scheme = strings.ToLower(scheme)
	switch scheme {
	case "kubemq", "kubemq+async":
		return parseKubeMQ(rest, false)
	case "kubemq+tls", "kubemq+async+tls":
		return parseKubeMQ(rest, true)
	case "embedded":
		if rest != "" {
			return endpoint{}, errors.New("embedded:// takes nothing behind it: the address is embedded_broker.listen")
		}
		return endpoint{embedded: true}, nil
	}
	if family, next := notYetSchemes[scheme]; next {
		return endpoint{}, fmt.Errorf("%s:// is not supported yet (%s): %s", scheme, family, allowedURLs)
	}
	return endpoint{}, fmt.Errorf("the scheme %s is not allowed: %s", quoted(scheme), allowedURLs)
}

// parseKubeMQ reads [:token@]host[:port]. A path, Celery's virtual host, means
// nothing to KubeMQ.
func parseKubeMQ(rest string, tls bool) (endpoint, error) {
	u, err := url.Parse("kubemq://" + rest)
	if err != nil {
		return endpoint{}, errors.New("not a URL: percent-encode special signs in the token")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return endpoint{}, errors.New("parameters are not allowed: use broker_transport_options or the kubemq section")
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "50000"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return endpoint{}, fmt.Errorf("port %s is not allowed: from 1 to 65535", shortened(port))
	}
	token, _ := u.User.Password()
	if token == "" {
		token = u.User.Username()
	}
	return endpoint{address: net.JoinHostPort(host, port), tls: tls, token: token}, nil
}

// connection gathers what one KubeMQ connection is made of.
type connection struct {
	*builder
	// options are those of this connection, by the setting they stand for.
	options map[string]value
	// results tells the result backend's connection from the broker's:
	// kubemq-celery's backend prefers the URL's token to the option, its broker
	// the option.
	results bool
}

func (c connection) setting(name string) value {
	return pick(c.options[name], c.values.settings[name])
}

// base is what doesn't depend on the URL.
func (c connection) base() KubeMQ {
	start, later := c.retries()
	return KubeMQ{
		StartRetries:       start,
		Retries:            later,
		KeepaliveTimeout:   as[time.Duration](c.setting("kubemq.keepalive_timeout")),
		Strategy:           as[string](c.setting("kubemq.strategy")),
		MaxDelay:           as[time.Duration](c.setting("kubemq.max_delay")),
		Retention:          as[time.Duration](c.setting("kubemq.retention")),
		Keepalive:          c.keepalive(),
		AllowFastKeepalive: as[bool](c.setting("kubemq.allow_fast_keepalive")),
		MaxSendSize:        as[int](c.setting("kubemq.max_send_size")),
		MaxReceiveSize:     as[int](c.setting("kubemq.max_receive_size")),
		ClientIDPrefix:     as[string](c.setting("kubemq.client_id_prefix")),
		ConnectTimeout:     as[time.Duration](c.setting("broker_connection_timeout")),
	}
}

// minKeepalive is how often KubeMQ lets a client ping that waits for messages;
// more often it closes the connection, unless it is set to allow that.
const minKeepalive = 5 * time.Minute

// keepalive passes over kubemq-celery's interval where it would cost the
// connection: Python's short polls hide the pings, this worker's waits don't.
func (c connection) keepalive() time.Duration {
	setting := c.values.settings["kubemq.keepalive"]
	chosen := pick(c.options["kubemq.keepalive"], setting)
	if c.tooFast(chosen) && chosen.name != setting.name {
		c.report.warn(chosen.name, chosen.source,
			"has no effect here below 300 unless kubemq.allow_fast_keepalive is true: KubeMQ closes connections that ping more often")
		chosen = setting
	}
	if c.tooFast(chosen) {
		c.fail(chosen, "below 300 needs kubemq.allow_fast_keepalive: KubeMQ closes connections that ping more often")
	}
	if interval := as[time.Duration](chosen); interval > 0 {
		return interval
	}
	return -1
}

func (c connection) tooFast(interval value) bool {
	d := as[time.Duration](interval)
	return d > 0 && d < minKeepalive && !as[bool](c.setting("kubemq.allow_fast_keepalive"))
}

// to completes the base for a URL.
func (c connection) to(base KubeMQ, where endpoint, given value) KubeMQ {
	base.Address = where.address
	base.AuthToken = c.token(where, given)
	base.TLS = c.tls(where)
	return base
}

func (c connection) token(where endpoint, given value) Secret {
	candidates := []value{
		c.options["kubemq.auth_token"],
		{decoded: where.token, source: given.source},
		c.values.settings["kubemq.auth_token"],
	}
	if c.results {
		candidates[0], candidates[1] = candidates[1], candidates[0]
	}
	candidates = slices.DeleteFunc(candidates, func(v value) bool { return v.decoded == "" })
	return NewSecret(as[string](pick(candidates...)))
}

func (c connection) tls(where endpoint) ClientTLS {
	if !where.tls && !as[bool](c.setting("kubemq.tls.enabled")) {
		c.refuseUnusedFiles()
		return ClientTLS{}
	}
	c.bothOrNone(c.setting("kubemq.tls.cert_file"), c.setting("kubemq.tls.key_file"))
	return ClientTLS{
		Enabled:    true,
		CAFile:     as[string](c.setting("kubemq.tls.ca_file")),
		CertFile:   as[string](c.setting("kubemq.tls.cert_file")),
		KeyFile:    as[string](c.setting("kubemq.tls.key_file")),
		ServerName: as[string](c.setting("kubemq.tls.server_name")),
	}
}

// refuseUnusedFiles: a connection for which certificates are given is meant to
// be encrypted and must not silently be plain. The kubemq section's files are
// judged by the broker's connection alone, because they hold for both.
func (c connection) refuseUnusedFiles() {
	for _, name := range []string{"kubemq.tls.ca_file", "kubemq.tls.cert_file", "kubemq.tls.key_file"} {
		file := c.setting(name)
		if c.results {
			file = c.options[name]
		}
		if as[string](file) != "" {
			c.fail(file, "is given for a connection without TLS: use a kubemq+tls:// URL")
		}
	}
}

func (b *builder) bothOrNone(cert, key value) {
	switch {
	case cert.decoded != "" && key.decoded == "":
		b.fail(cert, "is given without its key: set "+key.name)
	case cert.decoded == "" && key.decoded != "":
		b.fail(key, "is given without its certificate: set "+cert.name)
	}
}
