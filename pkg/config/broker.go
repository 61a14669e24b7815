package config

import (
	"net"
	"time"
)

// broker builds the connections to take messages from and to send them to.
func (b *builder) broker(embedded EmbeddedBroker) Broker {
	b.useSSL()
	c := connection{builder: b, options: b.values.options["broker_transport_options"]}
	base := c.base()
	common := b.values.settings["broker_url"]
	read, write := b.values.settings["broker_read_url"], b.values.settings["broker_write_url"]
	consume, publish := firstSet(read, common), firstSet(write, common)
	broker := Broker{Consume: c.server(base, consume, embedded), Publish: c.server(base, publish, embedded)}
	broker.Embedded = consume.decoded == embeddedURL || publish.decoded == embeddedURL
	if broker.Publish.Address != broker.Consume.Address {
		differing := write
		if write.source == nil {
			differing = read
		}
		b.report.warn(differing.name, differing.source, "not supported yet: the worker publishes to the server that it consumes from")
	}
	return broker
}

// server is the connection to what a URL names.
func (c connection) server(base KubeMQ, given value, embedded EmbeddedBroker) KubeMQ {
	where, ok := c.endpoint(given)
	switch {
	case !ok:
		return KubeMQ{}
	case where.embedded:
		return c.toEmbedded(base, embedded)
	default:
		return c.to(base, where, given)
	}
}

func firstSet(values ...value) value {
	for _, v := range values {
		if v.decoded != nil {
			return v
		}
	}
	return value{}
}

// endpoint parses a URL setting.
func (b *builder) endpoint(v value) (endpoint, bool) {
	where, err := parseEndpoint(as[string](v))
	if err != nil {
		b.fail(v, err.Error())
	}
	return where, err == nil
}

// useSSL makes the options of broker_use_ssl, true or Python's arguments for
// TLS, options of the connection.
func (b *builder) useSSL() {
	setting := b.values.settings["broker_use_ssl"]
	arguments, isMap := setting.decoded.(map[string]any)
	enabled, isBool := setting.decoded.(bool)
	if !isMap && !isBool && setting.decoded != nil {
		b.fail(setting, "is not allowed: true, false or a map with ca_certs, certfile and keyfile")
		return
	}
	if len(arguments) == 0 && !enabled {
		return
	}
	b.addOption("kubemq.tls.enabled", value{name: setting.name, decoded: true, source: setting.source})
	for key, argument := range arguments {
		option, known := sslArguments[key]
		path, isText := argument.(string)
		if !known || !isText {
			b.fail(value{name: setting.name + "." + key, source: setting.source}, "is not allowed: ca_certs, certfile and keyfile, each a path")
			continue
		}
		b.addOption(option, value{name: setting.name + "." + key, decoded: path, source: setting.source})
	}
}

var sslArguments = map[string]string{
	"ca_certs": "kubemq.tls.ca_file", "certfile": "kubemq.tls.cert_file", "keyfile": "kubemq.tls.key_file",
}

func (b *builder) addOption(name string, v value) {
	options := b.values.options["broker_transport_options"]
	if options == nil {
		options = map[string]value{}
		b.values.options["broker_transport_options"] = options
	}
	if _, given := options[name]; !given {
		options[name] = v
	}
}

// toEmbedded is the worker's own connection to the broker inside it. Its
// certificate is trusted as it is, unless kubemq.tls.ca_file says otherwise.
func (c connection) toEmbedded(base KubeMQ, broker EmbeddedBroker) KubeMQ {
	base.Address = dialable(broker.Listen)
	base.AuthToken = broker.AuthToken
	base.Retention = broker.Retention
	if broker.TLS.CertFile == "" {
		return base
	}
	base.TLS = c.tls(endpoint{tls: true})
	if base.TLS.CAFile == "" {
		base.TLS.CAFile = broker.TLS.CertFile
	}
	return base
}

// dialable is the address at which something that listens on every interface
// can be reached from the same machine.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// results builds the connection to the result backend.
func (b *builder) results(broker Broker, embedded EmbeddedBroker) Results {
	results := Results{
		Backend:  BackendDisabled,
		Expires:  get[time.Duration](b.values, "result_expires"),
		Extended: get[bool](b.values, "result_extended"),
	}
	given := b.values.settings["result_backend"]
	switch given.decoded {
	case nil, "", "disabled", "disabled://":
		return results
	case "embedded":
		given.decoded = embeddedURL
	}
	where, ok := b.endpoint(given)
	if !ok {
		return results
	}
	c := connection{builder: b, options: b.values.options["result_backend_transport_options"], results: true}
	if !where.embedded {
		results.Backend, results.KubeMQ = BackendKubeMQ, c.to(c.base(), where, given)
		return results
	}
	if !broker.Embedded {
		b.fail(given, "embedded needs the embedded broker: set broker: embedded")
	}
	results.Backend, results.KubeMQ = BackendEmbedded, c.toEmbedded(c.base(), embedded)
	return results
}

func (b *builder) embeddedBroker() EmbeddedBroker {
	v := b.values
	broker := EmbeddedBroker{
		Listen:        get[string](v, "embedded_broker.listen"),
		HTTPListen:    get[string](v, "embedded_broker.http_listen"),
		DataDir:       get[string](v, "embedded_broker.data_dir"),
		Sync:          get[bool](v, "embedded_broker.sync"),
		MaxDelay:      get[time.Duration](v, "embedded_broker.max_delay"),
		Retention:     get[time.Duration](v, "embedded_broker.retention"),
		CountCrashes:  get[bool](v, "embedded_broker.count_crashes"),
		MaxExpiration: get[time.Duration](v, "embedded_broker.max_expiration"),
		AuthToken:     NewSecret(get[string](v, "embedded_broker.auth_token")),
		TLS: ServerTLS{
			CertFile:     get[string](v, "embedded_broker.tls.cert_file"),
			KeyFile:      get[string](v, "embedded_broker.tls.key_file"),
			ClientCAFile: get[string](v, "embedded_broker.tls.client_ca_file"),
		},
	}
	settings := v.settings
	b.bothOrNone(settings["embedded_broker.tls.cert_file"], settings["embedded_broker.tls.key_file"])
	if broker.TLS.ClientCAFile != "" && broker.TLS.CertFile == "" {
		b.fail(settings["embedded_broker.tls.client_ca_file"], "is given without embedded_broker.tls.cert_file: there is no TLS to ask clients in")
	}
	for _, name := range []string{"embedded_broker.listen", "embedded_broker.http_listen"} {
		listen := settings[name]
		if address := as[string](listen); address != "" && listen.source != nil && !isLoopback(address) && !broker.AuthToken.IsSet() {
			b.report.warn(listen.name, listen.source, "is open to the network, and embedded_broker.auth_token is not set: anyone there can run tasks")
		}
	}
	return broker
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
