package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loadText loads a file with the given text, without environment or flags.
func loadText(t *testing.T, text string) (*Settings, []Warning, error) {
	t.Helper()
	return load(Source{Path: "celery.yaml"}, []byte(text))
}

func mustLoad(t *testing.T, text string) *Settings {
	t.Helper()
	settings, _, err := loadText(t, text)
	require.NoError(t, err)
	return settings
}

func TestDefaults(t *testing.T) {
	settings, warnings, err := Load(Source{})
	require.NoError(t, err)
	require.Empty(t, warnings)
	kubemq := KubeMQ{
		Address: "localhost:50000", Strategy: "auto", MaxDelay: 12 * time.Hour, Keepalive: 6 * time.Minute,
		MaxSendSize: 100 << 20, MaxReceiveSize: 100 << 20, ClientIDPrefix: "lovage", ConnectTimeout: 4 * time.Second,
		KeepaliveTimeout: 5 * time.Second,
	}
	want := &Settings{
		Worker: Worker{
			Hostname: "celery@%h", Concurrency: runtime.GOMAXPROCS(0), Queues: []string{"celery"},
			AcksOnFailure: true, AcksOnTimeout: true, AcceptContent: []string{"json"},
			TaskSerializer: "json", TaskProtocol: 2, TaskDefaultQueue: "celery", Timezone: time.UTC,
			Limits:             Limits{Envelope: 100 << 20, Body: 64 << 20, Depth: 200, Items: 5_000_000},
			UnprocessableQueue: "%s.unprocessable", UnknownTask: "reject", UnknownTaskAttempts: 10,
			RetryCountdownMax: 24 * time.Hour,
			DedupWindow:       16_384,
		},
		Broker:  Broker{Consume: kubemq, Publish: kubemq},
		Results: Results{Backend: BackendDisabled, Expires: 24 * time.Hour},
		EmbeddedBroker: EmbeddedBroker{
			Listen: "127.0.0.1:50000", DataDir: "lovage-data", Sync: true,
			MaxDelay: 24 * time.Hour, MaxExpiration: 24 * time.Hour,
		},
		Log:    Log{Format: "console", Level: "info"},
		Health: Health{Watchdog: 30 * time.Second},
		Sentry: Sentry{SampleRate: 1, IgnoreErrors: []string{}, ShutdownTimeout: 2 * time.Second},
	}
	want.values = settings.values
	require.Equal(t, want, settings)
}

func TestPrecedence(t *testing.T) {
	const file = "worker_concurrency: 2\ntask_queues: [a, b]\n"
	source := Source{
		Path:      "celery.yaml",
		Environ:   []string{"LOVAGE_WORKER_CONCURRENCY=3", "LOVAGE_TASK_QUEUES=c,d", "LOVAGE_LOG_LEVEL=ERROR"},
		Overrides: map[string]string{"worker.concurrency": "4"},
	}
	concurrency := func() int {
		settings, _, err := load(source, []byte(file))
		require.NoError(t, err)
		require.Equal(t, len(source.Environ) > 0, settings.Log.Level == "error")
		return settings.Worker.Concurrency
	}
	require.Equal(t, 4, concurrency(), "the command line beats the environment")
	source.Overrides = nil
	require.Equal(t, 3, concurrency(), "the environment beats the file")
	source.Environ = nil
	require.Equal(t, 2, concurrency(), "the file beats the default")
}

// A section is no value: its settings come from different layers.
func TestSectionsAreMerged(t *testing.T) {
	settings, _, err := load(Source{
		Environ:   []string{"LOVAGE_KUBEMQ_CLIENT_ID_PREFIX=env"},
		Overrides: map[string]string{"kubemq.strategy": "single", "kubemq.tls.enabled": "true"},
	}, []byte("kubemq: {auth_token: file, strategy: batch, tls: {server_name: file}}\nlimits:\n"))
	require.NoError(t, err)
	consume := settings.Broker.Consume
	require.Equal(t, "file", consume.AuthToken.Reveal())
	require.Equal(t, "env", consume.ClientIDPrefix)
	require.Equal(t, "single", consume.Strategy)
	require.Equal(t, ClientTLS{Enabled: true, ServerName: "file"}, consume.TLS)
}

func TestListsAndMapsAreReplacedNotMerged(t *testing.T) {
	settings, _, err := load(Source{Environ: []string{
		"LOVAGE_TASK_QUEUES=c, d", "LOVAGE_BROKER_TRANSPORT_OPTIONS={client_id_prefix: env}",
	}}, []byte("task_queues: [a, b]\nbroker_transport_options: {auth_token: file, client_id_prefix: file}"))
	require.NoError(t, err)
	require.Equal(t, []string{"c", "d"}, settings.Worker.Queues)
	require.Equal(t, "env", settings.Broker.Consume.ClientIDPrefix)
	require.False(t, settings.Broker.Consume.AuthToken.IsSet())
}

func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name    string
		environ []string
		address string
	}{
		{"Celery's variable beats the file", []string{"CELERY_BROKER_URL=kubemq://env:1"}, "env:1"},
		{"LOVAGE_ beats Celery's variable", []string{"LOVAGE_BROKER_URL=kubemq://lovage:1", "CELERY_BROKER_URL=kubemq://env:1"}, "lovage:1"},
		{"and in the other order", []string{"CELERY_BROKER_URL=kubemq://env:1", "LOVAGE_BROKER_URL=kubemq://lovage:1"}, "lovage:1"},
		{"empty counts as not set", []string{"CELERY_BROKER_URL=", "LOVAGE_BROKER_URL="}, "file:1"},
		{"the read URL beats the common one", []string{"CELERY_BROKER_URL=kubemq://env:1", "CELERY_BROKER_READ_URL=kubemq://read:1", "CELERY_BROKER_WRITE_URL=kubemq://read:1"}, "read:1"},
		{"other variables of Celery are not read", []string{"CELERY_BROKER=kubemq://env:1", "BROKER_URL=kubemq://env:1"}, "file:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings, warnings, err := load(Source{Environ: tt.environ}, []byte("broker_url: kubemq://file:1"))
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.Equal(t, tt.address, settings.Broker.Consume.Address)
		})
	}
}

func TestEnvironmentForms(t *testing.T) {
	settings, _, err := Load(Source{Environ: []string{
		`LOVAGE_UNPROCESSABLE_QUEUE=""`,
		"LOVAGE_TASK_ACKS_LATE=yes",
		"LOVAGE_RESULT_EXPIRES=null",
		"LOVAGE_KUBEMQ_AUTH_TOKEN=a: #{}\"b",
		"LOVAGE_KUBEMQ_TLS_ENABLED=1",
		"LOVAGE_QUEUES=[a, \"b,c\"]",
		"LOVAGE_KUBEMQ_MAX_DELAY=1h",
		"CELERY_BROKER_WRITE_URL=kubemq://write",
		"CELERY_RESULT_BACKEND=kubemq://results",
	}})
	require.NoError(t, err)
	require.Empty(t, settings.Worker.UnprocessableQueue)
	require.True(t, settings.Worker.AcksLate)
	require.Zero(t, settings.Results.Expires)
	require.Equal(t, "a: #{}\"b", settings.Broker.Consume.AuthToken.Reveal())
	require.True(t, settings.Broker.Consume.TLS.Enabled)
	require.Equal(t, []string{"a", "b,c"}, settings.Worker.Queues)
	require.Equal(t, time.Hour, settings.Broker.Consume.MaxDelay)
	require.Equal(t, "localhost:50000", settings.Broker.Consume.Address)
	require.Equal(t, "write:50000", settings.Broker.Publish.Address)
	require.Equal(t, "results:50000", settings.Results.KubeMQ.Address)
}

func TestUnknownVariables(t *testing.T) {
	_, warnings, err := Load(Source{Environ: []string{
		"LOVAGE_WORKER_CONCURENCY=3", "LOVAGE_CONFIG=celery.yaml",
		// What Kubernetes adds for services called lovage and lovage-worker.
		"LOVAGE_SERVICE_HOST=10.0.0.1", "LOVAGE_SERVICE_PORT=50000", "LOVAGE_SERVICE_PORT_GRPC=50000",
		"LOVAGE_PORT=tcp://10.0.0.1:50000", "LOVAGE_PORT_50000_TCP=tcp://10.0.0.1:50000",
		"LOVAGE_PORT_50000_TCP_PROTO=tcp", "LOVAGE_PORT_50000_TCP_PORT=50000", "LOVAGE_PORT_50000_TCP_ADDR=10.0.0.1",
		"LOVAGE_WORKER_SERVICE_HOST=10.0.0.1", "LOVAGE_WORKER_PORT_8080_TCP_ADDR=10.0.0.1",
	}})
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Equal(t, "environment variable LOVAGE_WORKER_CONCURENCY: no setting has this name, "+
		"the nearest is LOVAGE_WORKER_CONCURRENCY", warnings[0].String())
}

func TestOverridesTakeCelerysForms(t *testing.T) {
	for _, name := range []string{"worker_concurrency", "worker.concurrency", ".concurrency", "_concurrency", "WORKER.CONCURRENCY"} {
		settings, _, err := Load(Source{Overrides: map[string]string{name: "7"}})
		require.NoError(t, err, name)
		require.Equal(t, 7, settings.Worker.Concurrency, name)
	}
	settings, _, err := Load(Source{Overrides: map[string]string{
		"embedded_broker.listen": ":1", "kubemq_tls_ca_file": "", "worker.concurrency": "(int)3", "task_queues": `(list)["a", "b"]`,
	}})
	require.NoError(t, err)
	require.Equal(t, ":1", settings.EmbeddedBroker.Listen)
	require.Equal(t, 3, settings.Worker.Concurrency)
	require.Equal(t, []string{"a", "b"}, settings.Worker.Queues)
}

// Maps keyed by task and queue names keep their keys letter by letter, through
// every layer.
func TestMapsKeepCaseAndDots(t *testing.T) {
	const routes = `{Shop.Tasks.Process: {queue: High.Priority}, "*.B": {Queue: x}}`
	want := map[string]any{
		"Shop.Tasks.Process": map[string]any{"queue": "High.Priority"},
		"*.B":                map[string]any{"Queue": "x"},
	}
	for name, source := range map[string]Source{
		"environment":  {Environ: []string{"LOVAGE_TASK_ROUTES=" + routes}},
		"command line": {Overrides: map[string]string{"task_routes": routes}},
	} {
		settings, _, err := load(source, []byte("task_routes: {shop.tasks.process: lower}"))
		require.NoError(t, err, name)
		require.Equal(t, want, settings.Redacted()["task_routes"], name)
	}
	settings := mustLoad(t, "task_routes: "+routes+`
task_annotations: {Shop.Tasks.Process: {Rate_Limit: 1/s}}
task_queues: {High.Priority: {}, low.Priority: null}
broker_transport_options: {predefined_queues: {My.Queue: {URL: x}}}
`)
	shown := settings.Redacted()
	require.Equal(t, want, shown["task_routes"])
	require.Equal(t, map[string]any{"Shop.Tasks.Process": map[string]any{"Rate_Limit": "1/s"}}, shown["task_annotations"])
	require.Equal(t, map[string]any{"predefined_queues": map[string]any{"My.Queue": map[string]any{"URL": "x"}}}, shown["broker_transport_options"])
	require.Equal(t, []string{"High.Priority", "low.Priority"}, settings.Worker.Queues)
}

func TestEverySettingWithoutEffectWarnsOnce(t *testing.T) {
	for _, s := range Table() {
		if s.Support == Supported {
			continue
		}
		text := map[Kind]string{
			Bool: "true", Int: "7", Number: "7", Seconds: "7", Text: "seven", Map: "{a: 7}", Any: "7", Names: "[a]",
		}[s.Kind]
		switch {
		case s.Kind == Choice:
			text = "quorum"
		case s.Quiet == "true":
			text = "false"
		}
		_, warnings, err := loadText(t, s.Name+": "+text+"\ndead_letter_queue: dlq")
		require.NoError(t, err, s.Name)
		if s.Default == text {
			continue
		}
		require.Len(t, warnings, 1, s.Name)
		require.Equal(t, "celery.yaml:1: "+s.Name+": "+string(s.Support)+": "+s.Note, warnings[0].String())

		if s.Quiet != "" {
			_, warnings, err := loadText(t, s.Name+": "+s.Quiet)
			require.NoError(t, err, s.Name)
			require.Empty(t, warnings, s.Name)
		}
	}
}

func TestWarningsComeInTheOrderOfTheSources(t *testing.T) {
	_, warnings, err := load(Source{
		Path: "celery.yaml", Environ: []string{"LOVAGE_TASK_ANNOTATIONS={}"}, Overrides: map[string]string{"worker_pool": "solo"},
	}, []byte("task_time_limit: 3\nimports: [shop]\nbroker_transport_options:\n  wait_timeout: 1\n"))
	require.NoError(t, err)
	lines := make([]string, 0, len(warnings))
	for _, w := range warnings {
		lines = append(lines, w.String())
	}
	require.Equal(t, []string{
		"celery.yaml:1: task_time_limit: not supported yet: time limits are not enforced",
		"celery.yaml:2: imports: has no effect here: tasks are compiled into the worker",
		"celery.yaml:4: broker_transport_options.wait_timeout: has no effect here: the worker asks for as many messages as it has free slots",
		"environment variable LOVAGE_TASK_ANNOTATIONS: task_annotations: not supported yet: task options are set where the task is registered",
		"command line: worker_pool: has no effect here: tasks run in goroutines of one process",
	}, lines)
}

func TestFileThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "celery.yaml")
	_, _, err := Load(Source{Path: path})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.EqualError(t, err, "config: "+path+": can't be read: no such file or directory")

	_, _, err = Load(Source{Path: filepath.Dir(path)})
	var mistake *Error
	require.ErrorAs(t, err, &mistake)

	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("# long\n", maxFile/7+1)), 0o600))
	_, _, err = Load(Source{Path: path})
	require.EqualError(t, err, "config: "+path+": is longer than 1048576 bytes")
}

func TestErrorsAreJoined(t *testing.T) {
	_, _, err := loadText(t, "worker_concurrency: 0\nbogus_thing_xyz: 1\nlog: {level: loud}\n")
	var mistake *Error
	require.ErrorAs(t, err, &mistake)
	require.Equal(t, "worker_concurrency", mistake.Setting)
	require.Equal(t, "celery.yaml:1", mistake.Origin)
	var joined interface{ Unwrap() []error }
	require.ErrorAs(t, err, &joined)
	require.Len(t, joined.Unwrap(), 3)
}

func TestAFileFullOfMistakes(t *testing.T) {
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "bogus_%d: 1\n", i)
	}
	_, _, err := loadText(t, text.String())
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 21)
	require.Equal(t, "config: celery.yaml:1: bogus_0: unknown setting", lines[0])
	require.Equal(t, "config: and 10 more mistakes", lines[20])
}
