package broker

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// webClient asks the HTTP side of a broker.
type webClient struct {
	*client
	http *http.Client
	url  string
}

func startWeb(t *testing.T, config Config) *webClient {
	t.Helper()
	config.HTTPListen = "127.0.0.1:0"
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	w := &webClient{client: startBroker(t, config), http: &http.Client{Transport: transport}}
	w.url = "http://" + w.broker.HTTPAddr().String()
	return w
}

// ask returns the status and the body.
func (w *webClient) ask(method, path, body string, headers ...string) (code int, text string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	require.NoError(w.t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := w.http.Do(request)
	require.NoError(w.t, err)
	defer response.Body.Close()
	found, err := io.ReadAll(response.Body)
	require.NoError(w.t, err)
	return response.StatusCode, string(found)
}

func TestHTTPHealth(t *testing.T) {
	w := startWeb(t, Config{AuthToken: "secret"})
	code, text := w.ask(http.MethodGet, "/health", "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "healthy", text)
	code, text = w.ask(http.MethodGet, "/ready", "")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"is_healthy":true,"is_ready":true}`, text)

	code, text = w.ask(http.MethodGet, "/ping", "")
	require.Equal(t, http.StatusOK, code)
	var ping struct {
		IsError bool           `json:"is_error"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &ping))
	require.False(t, ping.IsError)
	require.Equal(t, "OK", ping.Message)
	require.Equal(t, DefaultVersion, ping.Data["Version"])
	require.Contains(t, ping.Data, "Host")
	require.Contains(t, ping.Data, "ServerStartTime")
}

func TestHTTPSendAndInfo(t *testing.T) {
	w := startWeb(t, Config{DataDir: t.TempDir()})
	_, text := w.ask(http.MethodGet, "/queue/info", "")
	require.JSONEq(t, `{"is_error":false,"message":"OK","data":{"Info":{}}}`, text)

	_, text = w.ask(http.MethodPost, "/queue/send",
		`{"ClientID":"c","Channel":"abc","Metadata":"m","Body":"aGVsbG8=","Tags":{"k":"v"},"Policy":{"ExpirationSeconds":60}}`)
	var sent struct {
		IsError bool                      `json:"is_error"`
		Data    pb.SendQueueMessageResult `json:"data"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &sent))
	require.False(t, sent.IsError, text)
	require.NotEmpty(t, sent.Data.MessageID)
	require.NotZero(t, sent.Data.SentAt)
	require.NotZero(t, sent.Data.ExpirationAt)

	got := w.consumer().get("abc", 1).Messages[0]
	require.Equal(t, "hello", string(got.Body))
	require.Equal(t, "m", got.Metadata)
	require.Equal(t, map[string]string{"k": "v"}, got.Tags)

	for _, path := range []string{"/queue/info", "/queue/info?queue=abc"} {
		_, text = w.ask(http.MethodGet, path, "")
		var info struct {
			Data pb.QueuesInfoResponse `json:"data"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &info))
		require.Len(t, info.Data.Info.Queues, 1)
		require.Equal(t, "abc", info.Data.Info.Queues[0].Name)
		require.Equal(t, int64(1), info.Data.Info.Queues[0].Waiting)
	}
	_, text = w.ask(http.MethodGet, "/queue/info?queue=other", "")
	require.JSONEq(t, `{"is_error":false,"message":"OK","data":{"Info":{}}}`, text)
}

func TestHTTPRefusals(t *testing.T) {
	w := startWeb(t, Config{})
	for body, message := range map[string]string{
		`{"Channel":"q","Body":"eA=="}`:  "Error 101: invalid clientID value, cannot be empty",
		`{"ClientID":"c","Channel":"q"}`: "Error 110: invalid message, cannot be empty",
		`not json`:                       "broker: read the message: invalid character 'o' in literal null (expecting 'u')",
		// Little more than is read, so that the client gets rid of it before the answer.
		`{"Body":"` + strings.Repeat("A", maxHTTPBody) + `"`: "broker: read the message: http: request body too large",
	} {
		code, text := w.ask(http.MethodPost, "/queue/send", body)
		require.Equal(t, http.StatusOK, code, "as the original")
		var answer httpAnswer
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		require.Equal(t, httpAnswer{IsError: true, Message: message}, answer)
	}
	code, _ := w.ask(http.MethodGet, "/queue/send", "")
	require.Equal(t, http.StatusMethodNotAllowed, code)
	code, _ = w.ask(http.MethodPost, "/queue/send", `{"ClientID":"c","Channel":"q","Body":"eA=="}`, "Origin", "https://evil.example")
	require.Equal(t, http.StatusForbidden, code, "from a web page")
	require.Zero(t, w.waiting("q"))
}

func TestHTTPToken(t *testing.T) {
	w := startWeb(t, Config{AuthToken: "secret"})
	for _, path := range []string{"/queue/info", "/metrics"} {
		for header, want := range map[string]int{
			"secret": http.StatusOK, "Bearer secret": http.StatusOK,
			"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "Bearer ": http.StatusUnauthorized,
		} {
			code, text := w.ask(http.MethodGet, path, "", "Authorization", header)
			require.Equal(t, want, code, "%s %q: %s", path, header, text)
		}
	}
	code, text := w.ask(http.MethodPost, "/queue/send", `{"ClientID":"c","Channel":"q","Body":"eA=="}`)
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, text, textNoToken)
}

func TestHTTPOverTLS(t *testing.T) {
	certificate, pool := selfSigned(t)
	config := Config{TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	w := startWeb(t, config)
	code, _ := w.ask(http.MethodGet, "/health", "")
	require.Equal(t, http.StatusBadRequest, code, "without TLS")
	w.url = "https://" + w.broker.HTTPAddr().String()
	w.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	code, text := w.ask(http.MethodGet, "/health", "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "healthy", text)
}

func TestHTTPListenerThatIsTakenFailsTheStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	b, err := New(Config{Listen: "127.0.0.1:0", HTTPListen: taken.Addr().String(), DataDir: t.TempDir()})
	require.NoError(t, err)
	require.ErrorContains(t, b.Start(t.Context()), "broker: listen for HTTP on "+taken.Addr().String())
	require.NoError(t, b.Stop())
}

// TestStopDoesNotWaitForHTTPClients: one that connects and sends nothing, or half a
// request, does not hold the broker up.
func TestStopDoesNotWaitForHTTPClients(t *testing.T) {
	w := startWeb(t, Config{})
	silent, err := net.Dial("tcp", w.broker.HTTPAddr().String())
	require.NoError(t, err)
	defer silent.Close()
	half, err := net.Dial("tcp", w.broker.HTTPAddr().String())
	require.NoError(t, err)
	defer half.Close()
	_, err = fmt.Fprint(half, "POST /queue/send HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	started := time.Now()
	require.NoError(t, w.broker.Stop())
	require.Less(t, time.Since(started), waitLimit)
}

func TestMetrics(t *testing.T) {
	w := startWeb(t, Config{})
	w.sendBodies("work", "a", "b", "c", "d")
	w.sendBodies("celery-result-1", "r")
	w.sendBodies("celery-result-2", "r")
	w.sendBodies("lovage.attempts.0123", "n")
	later := testMessage("work", "later")
	later.Policy = &pb.QueueMessagePolicy{DelaySeconds: 100}
	w.send(later)
	c := w.consumer()
	taken := c.get("work", 3)
	c.settle(typeAckRange, taken.TransactionId, 1)
	c.settle(typeNAckRange, taken.TransactionId, 2)
	c.barrier(taken.TransactionId)

	const want = `
# HELP lovage_broker_messages_acked_total Messages acked or purged.
# TYPE lovage_broker_messages_acked_total counter
lovage_broker_messages_acked_total 1
# HELP lovage_broker_messages_delivered_total Deliveries to consumers.
# TYPE lovage_broker_messages_delivered_total counter
lovage_broker_messages_delivered_total 3
# HELP lovage_broker_messages_nacked_total Messages nacked and handed back.
# TYPE lovage_broker_messages_nacked_total counter
lovage_broker_messages_nacked_total 1
# HELP lovage_broker_messages_sent_total Messages accepted, delayed ones included.
# TYPE lovage_broker_messages_sent_total counter
lovage_broker_messages_sent_total 8
# HELP lovage_broker_queue_messages Messages of a queue by state: ready, in_flight or delayed.
# TYPE lovage_broker_queue_messages gauge
lovage_broker_queue_messages{queue="(notes)",state="delayed"} 0
lovage_broker_queue_messages{queue="(notes)",state="in_flight"} 0
lovage_broker_queue_messages{queue="(notes)",state="ready"} 1
lovage_broker_queue_messages{queue="(results)",state="delayed"} 0
lovage_broker_queue_messages{queue="(results)",state="in_flight"} 0
lovage_broker_queue_messages{queue="(results)",state="ready"} 2
lovage_broker_queue_messages{queue="work",state="delayed"} 1
lovage_broker_queue_messages{queue="work",state="in_flight"} 1
lovage_broker_queue_messages{queue="work",state="ready"} 2
# HELP lovage_broker_queues Queues in memory.
# TYPE lovage_broker_queues gauge
lovage_broker_queues 4
`
	require.NoError(t, testutil.ScrapeAndCompare(w.url+"/metrics", strings.NewReader(want),
		"lovage_broker_messages_acked_total", "lovage_broker_messages_delivered_total", "lovage_broker_messages_nacked_total",
		"lovage_broker_messages_sent_total", "lovage_broker_queue_messages", "lovage_broker_queues"))
	_, text := w.ask(http.MethodGet, "/metrics", "")
	require.Contains(t, text, `lovage_broker_queue_oldest_seconds{queue="work"} `)
	require.Contains(t, text, "process_resident_memory_bytes ")
	require.Contains(t, text, "go_goroutines ")
}

func TestMetricsCountDeadLettersAndExpiry(t *testing.T) {
	w := startWeb(t, Config{})
	m := testMessage("q", "poison")
	m.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 1, MaxReceiveQueue: "dead"}
	w.send(m)
	c := w.consumer()
	taken := c.get("q", 1)
	c.settle(typeNAckAll, taken.TransactionId)
	c.barrier(taken.TransactionId)
	short := testMessage("q", "short")
	short.Policy = &pb.QueueMessagePolicy{ExpirationSeconds: 1}
	w.send(short)
	w.waitFor("expiry", func() bool {
		_, text := w.ask(http.MethodGet, "/metrics", "")
		return strings.Contains(text, "lovage_broker_messages_expired_total 1\n") &&
			strings.Contains(text, "lovage_broker_messages_dead_lettered_total 1\n") &&
			strings.Contains(text, "lovage_broker_messages_nacked_total 0\n")
	})
}

// TestMetricsAreBounded: the busiest queues keep series of their own.
func TestMetricsAreBounded(t *testing.T) {
	w := startWeb(t, Config{})
	for i := range 3 * maxSeries {
		w.sendBodies(fmt.Sprintf("q%d", i), "x")
	}
	w.sendBodies("busy", "1", "2", "3")
	w.sendBodies("celery-result-1", "r")
	_, text := w.ask(http.MethodGet, "/metrics", "")
	require.Equal(t, 3*maxSeries, strings.Count(text, "lovage_broker_queue_messages{"))
	require.Contains(t, text, `lovage_broker_queue_messages{queue="busy",state="ready"} 3`)
	require.Contains(t, text, `lovage_broker_queue_messages{queue="(results)",state="ready"} 1`)
	require.Contains(t, text, fmt.Sprintf(`lovage_broker_queue_messages{queue="(other)",state="ready"} %d`, 3*maxSeries-(maxSeries-4)))
}
