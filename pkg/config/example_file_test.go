package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write configs/celery.yaml")

var (
	exampleFile    = filepath.Join("..", "..", "configs", "celery.yaml")
	quickstartFile = filepath.Join("..", "..", "configs", "quickstart.yaml")
)

func TestExampleFileIsTheTable(t *testing.T) {
	var want bytes.Buffer
	require.NoError(t, WriteExample(&want))
	if *update {
		require.NoError(t, os.WriteFile(exampleFile, want.Bytes(), 0o644))
	}
	got, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got), "run go test ./pkg/config -update")
}

func TestExampleFileLoadsAsTheDefaults(t *testing.T) {
	defaults, warnings, err := Load(Source{})
	require.NoError(t, err)
	require.Empty(t, warnings)

	settings, warnings, err := Load(Source{Path: exampleFile})
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, defaults, settings)
}

// With every line uncommented, the file gives every setting, and each has its
// default. What has no effect warns, once each; nothing else does.
func TestExampleFileHoldsEverySetting(t *testing.T) {
	commented, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	yaml := regexp.MustCompile(`(?m)^#([^ \n]|  )`).ReplaceAll(commented, []byte("$1"))

	settings, warnings, err := load(Source{Path: "celery.yaml"}, yaml)
	require.NoError(t, err)
	defaults, _, err := Load(Source{})
	require.NoError(t, err)
	require.Equal(t, defaults.Redacted(), settings.Redacted())
	require.Equal(t, defaults.Worker, settings.Worker)
	require.Equal(t, defaults.Broker, settings.Broker)
	require.Equal(t, defaults.Results, settings.Results)
	require.Equal(t, defaults.EmbeddedBroker, settings.EmbeddedBroker)

	warned := map[string]int{}
	for _, w := range warnings {
		warned[w.Setting]++
	}
	for _, s := range Table() {
		if s.Name != "broker" { // its value has become broker_url's
			require.NotNil(t, settings.values.settings[s.Name].source, "%s is missing", s.Name)
		}
		want := 1
		if s.Support == Supported || s.Default == "" || s.Default == s.Quiet || s.Quiet == "0" && s.Default == "0.0" {
			want = 0
		}
		require.Equal(t, want, warned[s.Name], s.Name)
	}
}

func TestQuickstartFile(t *testing.T) {
	settings, warnings, err := Load(Source{Path: quickstartFile})
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.True(t, settings.Broker.Embedded)
	require.Equal(t, "127.0.0.1:50000", settings.Broker.Consume.Address)
	require.Equal(t, settings.Broker.Consume, settings.Broker.Publish)
	require.Equal(t, BackendEmbedded, settings.Results.Backend)
	require.Equal(t, "127.0.0.1:50000", settings.Results.KubeMQ.Address)
	require.NotEmpty(t, settings.EmbeddedBroker.DataDir)
	require.True(t, settings.EmbeddedBroker.Sync)
}
