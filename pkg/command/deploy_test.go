package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/lovage-project/lovage/pkg/config"
)

// manifest reads a file of deploy/kubernetes.
func manifest(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy/kubernetes", file))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// TestKubernetesConfigurationIsValid: the ConfigMap's celery.yaml with the environment
// that the Deployment and the Secret give.
func TestKubernetesConfigurationIsValid(t *testing.T) {
	var configMap struct{ Data map[string]string }
	manifest(t, "configmap.yaml", &configMap)
	var secret struct {
		StringData map[string]string `yaml:"stringData"`
	}
	manifest(t, "secret.yaml", &secret)
	file := filepath.Join(t.TempDir(), "celery.yaml")
	require.NoError(t, os.WriteFile(file, []byte(configMap.Data["celery.yaml"]), 0o600))
	t.Setenv("LOVAGE_HEALTH_LISTEN", ":8080")
	for name, value := range secret.StringData {
		t.Setenv(name, value)
	}
	code, out, errOut := run(t, "check", "--config", file)
	require.Equal(t, exitOK, code, errOut)
	require.Empty(t, errOut, "no warning")
	require.Contains(t, out, "1 queues, 2 to 20 slots")

	t.Setenv("LOVAGE_KUBEMQ_AUTH_TOKEN", "t")
	settings, _, err := config.Load(config.Source{Path: file, Environ: os.Environ()})
	require.NoError(t, err)
	require.Equal(t, "t", settings.Broker.Consume.AuthToken.Reveal(), "the Secret's name is the setting's")
	require.Equal(t, ":8080", settings.Health.Listen)
}

// TestKubernetesScalesOnAMetricThatIsThere: a worker shows it, under that name.
func TestKubernetesScalesOnAMetricThatIsThere(t *testing.T) {
	var scaled struct {
		Spec struct {
			Triggers []struct{ Metadata map[string]string }
		}
	}
	manifest(t, "scaledobject.yaml", &scaled)
	s := startService(t, registry(nil))
	settings, _, err := config.Load(config.Source{Path: s.file})
	require.NoError(t, err)
	text := get(t, "http://"+settings.Health.Listen+"/metrics")
	require.NotEmpty(t, scaled.Spec.Triggers)
	for _, trigger := range scaled.Spec.Triggers {
		require.Contains(t, text, "\n"+trigger.Metadata["valueLocation"]+" 0\n")
		require.True(t, strings.HasSuffix(trigger.Metadata["url"], "/metrics"))
	}
	s.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, s.exitCode())
}
