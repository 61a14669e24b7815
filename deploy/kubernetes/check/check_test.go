package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", file))
	require.NoError(t, err)
	return string(content)
}

func manifest[T any](t *testing.T, file string) T {
	t.Helper()
	object, err := Manifest([]byte(text(t, file)))
	require.NoError(t, err, file)
	typed, ok := object.(*T)
	require.True(t, ok, "%s is a %T", file, object)
	return *typed
}

func TestEveryManifestIsValid(t *testing.T) {
	files, err := filepath.Glob("../*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 5)
	for _, file := range files {
		_, err := Manifest([]byte(text(t, filepath.Base(file))))
		require.NoError(t, err, file)
	}
}

// TestMistakesAreFound: each of these replaces a piece of a manifest that is valid.
func TestMistakesAreFound(t *testing.T) {
	for name, c := range map[string]struct{ file, old, with, problem string }{
		"unknown field":          {"deployment.yaml", "readinessProbe:", "readynessProbe:", `unknown field "spec.template.spec.containers[0].readynessProbe"`},
		"wrong case":             {"deployment.yaml", "runAsNonRoot:", "runAsNonroot:", "runAsNonroot"},
		"field in another place": {"deployment.yaml", "  selector:", "  terminationGracePeriodSeconds: 1\n  selector:", "terminationGracePeriodSeconds"},
		"text for a number":      {"deployment.yaml", "periodSeconds: 5", `periodSeconds: "5"`, "periodSeconds"},
		"number for a text":      {"deployment.yaml", `value: ":8080"`, "value: 8080", "string"},
		"no quantity":            {"deployment.yaml", "cpu: 250m", "cpu: 250x", "quantities"},
		"no selector":            {"deployment.yaml", "  selector:\n    matchLabels:\n      app.kubernetes.io/name: lovage-worker\n", "", "required: spec.selector"},
		"no name":                {"deployment.yaml", "        - name: worker\n          image", "        - image", "required: spec.template.spec.containers[0].name"},
		"a probe without a port": {"deployment.yaml", "              path: /healthz\n              port: health", "              path: /healthz", "livenessProbe.httpGet.port"},
		"a key twice":            {"deployment.yaml", "readOnly: true", "readOnly: true\n              readOnly: true", "already"},
		"a port of text":         {"service.yaml", "port: 8080", "port: http", "int32"},
		"a service without port": {"service.yaml", "      port: 8080\n", "", "required: spec.ports[0].port"},
		"a list of configs":      {"configmap.yaml", "  celery.yaml: |", "  celery.yaml: [a]\n  other: |", "string"},
		"unknown kind":           {"secret.yaml", "kind: Secret", "kind: Secrets", "unknown apiVersion and kind"},
		"unknown group":          {"scaledobject.yaml", "keda.sh/v1alpha1", "keda.sh/v1", "unknown apiVersion and kind"},
		"nameless":               {"secret.yaml", "  name: lovage-worker\n", "", "metadata.name"},
		"keda: unknown field":    {"scaledobject.yaml", "minReplicaCount", "minReplicas", `unknown field "spec.minReplicas"`},
		"keda: text for number":  {"scaledobject.yaml", "pollingInterval: 15", "pollingInterval: 15s", "pollingInterval"},
		"keda: number for text":  {"scaledobject.yaml", `targetValue: "20"`, "targetValue: 20", "string"},
		"keda: no target":        {"scaledobject.yaml", "  scaleTargetRef:\n    name: lovage-worker\n", "", "required: spec.scaleTargetRef"},
		"keda: no type":          {"scaledobject.yaml", "    - type: metrics-api\n      metadata", "    - metadata", "required: spec.triggers[0].type"},
		"keda: in the HPA":       {"scaledobject.yaml", "stabilizationWindowSeconds", "stabilisationWindowSeconds", "stabilisationWindowSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			valid := text(t, c.file)
			require.Contains(t, valid, c.old)
			_, err := Manifest([]byte(strings.Replace(valid, c.old, c.with, 1)))
			require.ErrorContains(t, err, c.problem)
		})
	}
}

// TestTheyBelongTogether: what one manifest names the others have.
func TestTheyBelongTogether(t *testing.T) {
	deployment := manifest[apps.Deployment](t, "deployment.yaml")
	config := manifest[core.ConfigMap](t, "configmap.yaml")
	secret := manifest[core.Secret](t, "secret.yaml")
	service := manifest[core.Service](t, "service.yaml")
	scaled := manifest[keda.ScaledObject](t, "scaledobject.yaml")
	pod := deployment.Spec.Template
	container := pod.Spec.Containers[0]

	for _, namespace := range []string{config.Namespace, secret.Namespace, service.Namespace, scaled.Namespace} {
		require.Equal(t, deployment.Namespace, namespace)
	}
	require.Subset(t, pod.Labels, deployment.Spec.Selector.MatchLabels)
	require.Subset(t, pod.Labels, service.Spec.Selector)
	require.Equal(t, config.Name, pod.Spec.Volumes[0].ConfigMap.Name)
	require.Equal(t, pod.Spec.Volumes[0].Name, container.VolumeMounts[0].Name)
	require.Equal(t, secret.Name, container.EnvFrom[0].SecretRef.Name)
	require.Equal(t, deployment.Name, scaled.Spec.ScaleTargetRef.Name)
	require.Nil(t, deployment.Spec.Replicas, "the ScaledObject's")

	environment := map[string]string{}
	for _, variable := range container.Env {
		environment[variable.Name] = variable.Value
	}
	port := container.Ports[0]
	require.Equal(t, fmt.Sprintf(":%d", port.ContainerPort), environment["LOVAGE_HEALTH_LISTEN"])
	require.Equal(t, container.VolumeMounts[0].MountPath+"/celery.yaml", environment["LOVAGE_CONFIG"])
	require.Contains(t, config.Data, "celery.yaml")
	for _, named := range []intstr.IntOrString{
		container.LivenessProbe.HTTPGet.Port, container.ReadinessProbe.HTTPGet.Port, service.Spec.Ports[0].TargetPort,
	} {
		require.Equal(t, port.Name, named.String())
	}
}

// TestThePodIsHarmless: what the restricted Pod Security Standard asks for.
func TestThePodIsHarmless(t *testing.T) {
	pod := manifest[apps.Deployment](t, "deployment.yaml").Spec.Template.Spec
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.Equal(t, core.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.False(t, *pod.AutomountServiceAccountToken)
	for _, container := range pod.Containers {
		require.False(t, *container.SecurityContext.AllowPrivilegeEscalation)
		require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
		require.Equal(t, []core.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop)
		require.Contains(t, container.Resources.Requests, core.ResourceCPU)
		require.Contains(t, container.Resources.Limits, core.ResourceMemory)
	}
}

// TestTheTriggerAsksTheWorkers for the depth of a queue that they consume, and adds a
// pod when the slots of the others are in use.
func TestTheTriggerAsksTheWorkers(t *testing.T) {
	service := manifest[core.Service](t, "service.yaml")
	var settings struct {
		Queues    []string `json:"task_queues"`
		Autoscale struct {
			Max    int
			Target int `json:"target_depth_per_slot"`
		} `json:"worker_autoscale"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(manifest[core.ConfigMap](t, "configmap.yaml").Data["celery.yaml"]), &settings))
	triggers := manifest[keda.ScaledObject](t, "scaledobject.yaml").Spec.Triggers
	require.Len(t, triggers, len(settings.Queues), "one for each queue")
	for i, queue := range settings.Queues {
		require.Equal(t, "metrics-api", triggers[i].Type)
		require.Equal(t, map[string]string{
			"url":           fmt.Sprintf("http://%s.%s.svc:%d/metrics", service.Name, service.Namespace, service.Spec.Ports[0].Port),
			"format":        "prometheus",
			"valueLocation": fmt.Sprintf("lovage_queue_depth{queue=%q,role=\"tasks\"}", queue),
			"targetValue":   strconv.Itoa(settings.Autoscale.Max * settings.Autoscale.Target),
		}, triggers[i].Metadata)
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestTheReadmesTriggers are what a ScaledObject takes.
func TestTheReadmesTriggers(t *testing.T) {
	blocks := yamlBlock.FindAllStringSubmatch(text(t, "README.md"), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		data, err := yaml.YAMLToJSONStrict([]byte(block[1]))
		require.NoError(t, err)
		var spec struct {
			Triggers []keda.ScaleTriggers `json:"triggers"`
		}
		require.NoError(t, Strict(data, &spec), block[1])
		require.NotEmpty(t, spec.Triggers)
	}
}
