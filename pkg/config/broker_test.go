package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBrokerURLs(t *testing.T) {
	for _, tt := range []struct {
		url, address, token string
		tls                 bool
	}{
		{"kubemq://", "localhost:50000", "", false},
		{"kubemq://h", "h:50000", "", false},
		{"kubemq://h:1/", "h:1", "", false},
		{"kubemq://h:1/vhost", "h:1", "", false},
		{"kubemq://user:@h:1", "h:1", "user", false},
		{"KubeMQ://h:1", "h:1", "", false},
		{"kubemq://:tok%2Fen@h:1", "h:1", "tok/en", false},
		{"kubemq://token@h:1", "h:1", "token", false},
		{"kubemq://user:token@h:1", "h:1", "token", false},
		{"kubemq://[::1]:1", "[::1]:1", "", false},
		{"kubemq+tls://h", "h:50000", "", true},
		{"kubemq+async://h", "h:50000", "", false},
		{"kubemq+async+tls://:t@h", "h:50000", "t", true},
		{"[kubemq://h]", "h:50000", "", false}, // a list of one
	} {
		settings := mustLoad(t, "broker_url: "+tt.url)
		require.Equal(t, tt.address, settings.Broker.Consume.Address, tt.url)
		require.Equal(t, tt.token, settings.Broker.Consume.AuthToken.Reveal(), tt.url)
		require.Equal(t, ClientTLS{Enabled: tt.tls}, settings.Broker.Consume.TLS, tt.url)
		require.Equal(t, settings.Broker.Consume, settings.Broker.Publish, tt.url)
		require.False(t, settings.Broker.Embedded)
	}
}

func TestWrongURLs(t *testing.T) {
	const allowed = ": kubemq://host:port, kubemq+tls://host:port or embedded://"
	for _, tt := range []struct{ text, want string }{
		{"broker_url: redis://:pw@h:6379/0", "broker_url: redis:// is not supported yet (Redis)" + allowed},
		{"broker_url: amqp://guest:pw@h//", "broker_url: amqp:// is not supported yet (RabbitMQ)" + allowed},
		{"broker_url: sqs://key:pw@", `broker_url: the scheme "sqs" is not allowed` + allowed},
		{"broker_url: pw@h:1", "broker_url: not a URL with a scheme" + allowed},
		{`broker_url: ""`, "broker_url: not a URL with a scheme" + allowed},
		{"broker_url: kubemq://:p w@h", "broker_url: not a URL: percent-encode special signs in the token"},
		{"broker_url: kubemq://:pw%zz@h", "broker_url: not a URL: percent-encode special signs in the token"},
		{"broker_url: kubemq://h?token=pw", "broker_url: parameters are not allowed: use broker_transport_options or the kubemq section"},
		{"broker_url: kubemq://h:0", "broker_url: port 0 is not allowed: from 1 to 65535"},
		{"broker_url: kubemq://h:70000", "broker_url: port 70000 is not allowed: from 1 to 65535"},
		{"broker_url: kubemq://:pw@a;kubemq://:pw@b", "broker_url: a list of URLs is not supported yet: give one"},
		{"broker_url: [kubemq://:pw@a, kubemq://:pw@b]", "broker_url: a list is not allowed: a URL"},
		{"broker_url: embedded://h:1", "broker_url: embedded:// takes nothing behind it: the address is embedded_broker.listen"},
		{"broker_url: 5", "broker_url: 5 is not allowed: a URL (in quotes)"},
		{"result_backend: redis://:pw@h", "result_backend: redis:// is not supported yet (Redis)" + allowed},
		{"result_backend: rpc://", "result_backend: rpc:// is not supported yet (RabbitMQ)" + allowed},
		{"result_backend: db+postgresql://u:pw@h/d", `result_backend: the scheme "db+postgresql" is not allowed` + allowed},
		{"result_backend: embedded", "result_backend: embedded needs the embedded broker: set broker: embedded"},
		{"broker: embedded\nbroker_url: kubemq://:pw@h", "broker: embedded contradicts broker_url: keep one of them"},
	} {
		_, _, err := loadText(t, tt.text)
		require.EqualError(t, err, "config: celery.yaml:1: "+tt.want, tt.text)
		require.NotContains(t, err.Error(), "pw")
	}
}

func TestEmbeddedBroker(t *testing.T) {
	settings := mustLoad(t, `
broker: embedded
result_backend: embedded://
embedded_broker: {listen: "0.0.0.0:7", auth_token: t, tls: {cert_file: c, key_file: k}}
kubemq: {strategy: direct}
`)
	require.True(t, settings.Broker.Embedded)
	consume := settings.Broker.Consume
	require.Equal(t, "127.0.0.1:7", consume.Address)
	require.Equal(t, "t", consume.AuthToken.Reveal())
	require.Equal(t, ClientTLS{Enabled: true, CAFile: "c"}, consume.TLS)
	require.Equal(t, "direct", consume.Strategy)
	require.Equal(t, BackendEmbedded, settings.Results.Backend)
	require.Equal(t, consume, settings.Results.KubeMQ)

	disabled := mustLoad(t, "broker: embedded")
	require.Equal(t, BackendDisabled, disabled.Results.Backend, "results are off unless they are asked for, as in Celery")
	for _, off := range []string{"disabled://", "disabled", `""`, "null"} {
		require.Equal(t, BackendDisabled, mustLoad(t, "result_backend: "+off).Results.Backend, off)
	}
}

// "broker: embedded" is short for a broker_url, so a higher layer's broker_url
// beats it.
func TestEmbeddedIsBeatenByAHigherLayer(t *testing.T) {
	settings, _, err := load(Source{Environ: []string{"CELERY_BROKER_URL=kubemq://h"}}, []byte("broker: embedded"))
	require.NoError(t, err)
	require.False(t, settings.Broker.Embedded)
	require.Equal(t, "h:50000", settings.Broker.Consume.Address)

	settings, _, err = load(Source{Environ: []string{"LOVAGE_BROKER=embedded"}}, []byte("broker_url: kubemq://h"))
	require.NoError(t, err)
	require.True(t, settings.Broker.Embedded)

	mustLoad(t, "broker: embedded\nbroker_url: embedded://")
	mustLoad(t, "broker: null\nbroker_url: kubemq://h")
}

func TestOpenListenerWarns(t *testing.T) {
	for listen, warns := range map[string]bool{
		"0.0.0.0:1": true, ":1": true, "192.168.0.1:1": true, "broker:1": true,
		"127.0.0.1:1": false, "[::1]:1": false, "localhost:1": false,
	} {
		for _, setting := range []string{"listen", "http_listen"} {
			_, warnings, err := loadText(t, `embedded_broker: {`+setting+`: "`+listen+`"}`)
			require.NoError(t, err)
			require.Equal(t, warns, len(warnings) == 1, listen)
			_, warnings, err = loadText(t, `embedded_broker: {auth_token: t, `+setting+`: "`+listen+`"}`)
			require.NoError(t, err)
			require.Empty(t, warnings, listen)
		}
	}
}

// The names that kubemq-celery takes work as they are.
func TestKubeMQCelerysOptions(t *testing.T) {
	settings := mustLoad(t, `
broker_url: kubemq://:url@h
broker_connection_timeout: 9
broker_transport_options:
  auth_token: option
  tls_enabled: true
  tls_ca_file: ca
  tls_cert_file: cert
  tls_key_file: key
  max_send_size: 4194304
  max_receive_size: 8388608
  connection_timeout: 2
  grpc_keepalive_time: 600
  grpc_keepalive_timeout: 30
  client_id_prefix: shop
  max_receive_count: 3
  dead_letter_queue: dead
  auto_ack: true
  retry_countdown_max: 600
`)
	require.Equal(t, KubeMQ{
		Address: "h:50000", AuthToken: NewSecret("option"),
		TLS:      ClientTLS{Enabled: true, CAFile: "ca", CertFile: "cert", KeyFile: "key"},
		Strategy: "auto", MaxDelay: 12 * time.Hour,
		Keepalive: 10 * time.Minute, KeepaliveTimeout: 30 * time.Second,
		MaxSendSize: 4 << 20, MaxReceiveSize: 8 << 20, ClientIDPrefix: "shop", ConnectTimeout: 2 * time.Second,
	}, settings.Broker.Consume)
	require.Equal(t, 3, settings.Worker.MaxAttempts)
	require.Equal(t, "dead", settings.Worker.DeadLetterQueue)
	require.True(t, settings.Worker.AutoAck)
	require.Equal(t, 10*time.Minute, settings.Worker.RetryCountdownMax)
}

// Among the places that say the same, the higher layer wins, then the more
// specific one; in kubemq-celery an option beats the broker's URL, but not the
// backend's.
func TestWhichTokenCounts(t *testing.T) {
	const section = "\nkubemq: {auth_token: section}"
	for _, tt := range []struct {
		name, text string
		environ    []string
		broker     string
		results    string
	}{
		{"section for all", "result_backend: kubemq://h" + section, nil, "section", "section"},
		{"URL before section", "broker_url: kubemq://:url@h\nresult_backend: kubemq://:rurl@h" + section, nil, "url", "rurl"},
		{"option before URL, but for results", "broker_url: kubemq://:url@h\nbroker_transport_options: {auth_token: option}\n" +
			"result_backend: kubemq://:rurl@h\nresult_backend_transport_options: {auth_token: roption}" + section, nil, "option", "rurl"},
		{"an empty option doesn't count", "broker_url: kubemq://:url@h\nbroker_transport_options: {auth_token: \"\"}\nresult_backend: kubemq://h\n" +
			"result_backend_transport_options: {auth_token: null}" + section, nil, "url", "section"},
		{"environment before file", "result_backend: kubemq://:rurl@h\nbroker_transport_options: {auth_token: option}" + section,
			[]string{"LOVAGE_KUBEMQ_AUTH_TOKEN=env"}, "env", "env"},
		{"URL of the environment", "result_backend: kubemq://:rurl@h\nbroker_transport_options: {auth_token: option}" + section,
			[]string{"CELERY_BROKER_URL=kubemq://:envurl@h"}, "envurl", "rurl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings, _, err := load(Source{Environ: tt.environ}, []byte(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.broker, settings.Broker.Consume.AuthToken.Reveal())
			require.Equal(t, tt.results, settings.Results.KubeMQ.AuthToken.Reveal())
		})
	}
}

// kubemq-celery pings every 30 s, which costs a connection that waits for
// messages, unless the server is known to allow it.
func TestKeepalive(t *testing.T) {
	settings, warnings, err := loadText(t, "broker_transport_options: {grpc_keepalive_time: 30}\nkubemq: {keepalive: 400}")
	require.NoError(t, err)
	require.Equal(t, 400*time.Second, settings.Broker.Consume.Keepalive)
	require.Len(t, warnings, 1)
	require.Equal(t, "celery.yaml:1: broker_transport_options.grpc_keepalive_time: has no effect here below 300 unless "+
		"kubemq.allow_fast_keepalive is true: KubeMQ closes connections that ping more often", warnings[0].String())

	settings, warnings, err = loadText(t, "broker_transport_options: {grpc_keepalive_time: 30}\nkubemq: {allow_fast_keepalive: true}")
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, 30*time.Second, settings.Broker.Consume.Keepalive)

	require.Negative(t, mustLoad(t, "kubemq: {keepalive: 0}").Broker.Consume.Keepalive)
	_, _, err = loadText(t, "kubemq: {keepalive: 30}")
	require.EqualError(t, err, "config: celery.yaml:1: kubemq.keepalive: below 300 needs kubemq.allow_fast_keepalive: "+
		"KubeMQ closes connections that ping more often")
}

func TestTwoServersWarn(t *testing.T) {
	for _, text := range []string{"broker_write_url: kubemq://h", "broker_read_url: kubemq://h"} {
		settings, warnings, err := loadText(t, text)
		require.NoError(t, err)
		require.NotEqual(t, settings.Broker.Consume.Address, settings.Broker.Publish.Address)
		require.Len(t, warnings, 1)
		require.Equal(t, "not supported yet: the worker publishes to the server that it consumes from", warnings[0].Text)
	}
	_, warnings, err := loadText(t, "broker_read_url: kubemq://:t@localhost:50000")
	require.NoError(t, err)
	require.Empty(t, warnings)
}

func TestUseSSL(t *testing.T) {
	settings := mustLoad(t, "broker_use_ssl: {ca_certs: ca, certfile: cert, keyfile: key}")
	require.Equal(t, ClientTLS{Enabled: true, CAFile: "ca", CertFile: "cert", KeyFile: "key"}, settings.Broker.Consume.TLS)
	require.False(t, mustLoad(t, "broker_use_ssl: false").Broker.Consume.TLS.Enabled)
	require.False(t, mustLoad(t, "broker_use_ssl: {}").Broker.Consume.TLS.Enabled)
}

func TestTLSMistakes(t *testing.T) {
	const plain = ": is given for a connection without TLS: use a kubemq+tls:// URL"
	for _, tt := range []struct{ text, want string }{
		{"kubemq: {tls: {ca_file: f}}", "kubemq.tls.ca_file" + plain},
		{"broker_transport_options: {tls_cert_file: f}", "broker_transport_options.tls_cert_file" + plain},
		{"result_backend_transport_options: {tls_ca_file: f}\nresult_backend: kubemq://h", "result_backend_transport_options.tls_ca_file" + plain},
		{"kubemq: {tls: {enabled: true, cert_file: f}}", "kubemq.tls.cert_file: is given without its key: set kubemq.tls.key_file"},
		{"kubemq: {tls: {enabled: true, key_file: f}}", "kubemq.tls.key_file: is given without its certificate: set kubemq.tls.cert_file"},
		{"embedded_broker: {tls: {cert_file: f}}", "embedded_broker.tls.cert_file: is given without its key: set embedded_broker.tls.key_file"},
		{"embedded_broker: {tls: {client_ca_file: f}}", "embedded_broker.tls.client_ca_file: is given without embedded_broker.tls.cert_file: there is no TLS to ask clients in"},
		{"broker_use_ssl: sometimes", "broker_use_ssl: is not allowed: true, false or a map with ca_certs, certfile and keyfile"},
		{"broker_use_ssl: {ssl_version: 3}", "broker_use_ssl.ssl_version: is not allowed: ca_certs, certfile and keyfile, each a path"},
	} {
		_, _, err := loadText(t, tt.text)
		require.EqualError(t, err, "config: celery.yaml:1: "+tt.want, tt.text)
	}
	// The section's files hold for both connections; one of them may be plain.
	settings := mustLoad(t, "broker_url: kubemq+tls://h\nresult_backend: kubemq://h\nkubemq: {tls: {ca_file: f}}")
	require.True(t, settings.Broker.Consume.TLS.Enabled)
	require.False(t, settings.Results.KubeMQ.TLS.Enabled)
}

func TestPickleIsLeftOut(t *testing.T) {
	settings, warnings, err := loadText(t, "accept_content: [pickle, json]")
	require.NoError(t, err)
	require.Equal(t, []string{"json"}, settings.Worker.AcceptContent)
	require.Len(t, warnings, 1)
	require.Equal(t, "celery.yaml:1: accept_content: pickle has no effect here: only Python can read it", warnings[0].String())
}

func TestSecondsTakeUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"86400": 24 * time.Hour, "1d": 24 * time.Hour, "1.5d": 36 * time.Hour, "0.25": 250 * time.Millisecond,
		"500ms": 500 * time.Millisecond, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute, "1_000": 1000 * time.Second,
		"0": 0, "null": 0,
	} {
		require.Equal(t, want, mustLoad(t, "result_expires: "+text).Results.Expires, text)
	}
}

// TestDeduplicationNeedsResults: without them it has no effect, and that is said.
func TestDeduplicationNeedsResults(t *testing.T) {
	const on = "worker_deduplicate_successful_tasks: true\n"
	_, warnings, err := loadText(t, on)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0].String(), "celery.yaml:1: worker_deduplicate_successful_tasks: has no effect here without result_backend")
	_, warnings, err = loadText(t, on+"result_backend: kubemq://h")
	require.NoError(t, err)
	require.Empty(t, warnings)
}
