package config

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTableIsSound(t *testing.T) {
	names, variables := map[string]bool{}, map[string]bool{}
	for _, s := range Table() {
		require.False(t, names[s.Name], "%s is there twice", s.Name)
		require.False(t, variables[s.Env()], "%s is the variable of two settings", s.Env())
		names[s.Name], variables[s.Env()] = true, true
		checkRow(t, s)
		for _, field := range s.Fields {
			checkField(t, s, field)
		}
	}
}

func checkRow(t *testing.T, s Setting) {
	t.Helper()
	require.NotEmpty(t, s.Group, s.Name)
	require.NotEmpty(t, s.Kind, s.Name)
	if s.Default != "" {
		node, err := parseYAML([]byte(s.Default))
		require.NoError(t, err, s.Name)
		_, err = s.decode(node)
		require.NoError(t, err, "default of %s", s.Name)
	}
	if s.Quiet != "" {
		node, err := parseYAML([]byte(s.Quiet))
		require.NoError(t, err, s.Name)
		_, err = s.decode(node)
		require.NoError(t, err, "quiet value of %s", s.Name)
	}
	if s.Support == Supported {
		require.NotEmpty(t, s.Doc, s.Name)
		require.Empty(t, s.Note+s.Quiet, s.Name)
	} else {
		require.NotEmpty(t, s.Note, s.Name)
	}
}

// checkField: an option stands for a setting of its own kind, or has no effect.
func checkField(t *testing.T, s, field Setting) {
	t.Helper()
	name := s.Name + "." + field.Name
	if field.For == "" {
		require.NotEqual(t, Supported, field.Support, name)
		return
	}
	for _, target := range Table() {
		if target.Name == field.For {
			require.Equal(t, target.Kind, field.Kind, name)
			return
		}
	}
	t.Fatalf("%s stands for %s, which is no setting", name, field.For)
}

type celerySetting struct {
	Default any    `json:"default"`
	Old     string `json:"old"`
}

// celerySettings is what celery.app.defaults of the real Celery says.
func celerySettings(t *testing.T) map[string]celerySetting {
	t.Helper()
	data, err := os.ReadFile("testdata/celery_settings.json")
	require.NoError(t, err)
	var file struct {
		Settings map[string]celerySetting `json:"settings"`
	}
	require.NoError(t, json.Unmarshal(data, &file))
	require.Greater(t, len(file.Settings), 150)
	return file.Settings
}

func TestTableHasCelerysSettingsWithCelerysDefaults(t *testing.T) {
	ours := newIndex(Table()).byName
	differs := map[string]string{
		"broker_url":                    "Celery's amqp:// is not there yet",
		"broker_connection_max_retries": "a worker that gives up needs somebody to start it again",
	}
	for name, celery := range celerySettings(t) {
		s, known := ours[name]
		require.True(t, known, "%s is missing", name)
		if differs[name] == "" {
			require.EqualValues(t, celery.Default, plain(s.defaultValue()), name)
		}
	}
}

func TestTableKnowsCelerysOldNames(t *testing.T) {
	byOld := newIndex(Table()).byOld
	for name, celery := range celerySettings(t) {
		require.Equal(t, name, byOld[celery.Old], celery.Old)
	}
}

// plain turns a decoded value into what encoding/json would have made of it.
func plain(value any) any {
	switch v := value.(type) {
	case time.Duration:
		return v.Seconds()
	case int:
		return float64(v)
	case float64:
		if math.IsInf(v, 1) {
			return "inf"
		}
		return v
	case []string:
		items := make([]any, 0, len(v))
		for _, item := range v {
			items = append(items, item)
		}
		return items
	case map[string]any:
		for key, item := range v {
			v[key] = plain(item)
		}
		return v
	default:
		return value
	}
}
