package config

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const secrets = `
broker_url: kubemq://:hush-url@broker:50000
broker_read_url: kubemq://hush-user@broker:50000
result_backend: kubemq+tls://hush-user:hush-url@results:50000
broker_transport_options: {auth_token: hush-option, client_id_prefix: shop}
result_backend_transport_options: {auth_token: hush-option}
kubemq: {auth_token: hush-section}
embedded_broker: {auth_token: hush-embedded}
security_key_password: hush-password
database_url: postgresql://hush-user:hush-url@db/x
redis_password: hush-redis
sentry: {dsn: "https://hush-sentry@o1.ingest.example/1"}
task_annotations: {shop.pay: {api_key: hush-nested, urls: ["redis://:hush-url@h"], nested: [{token: hush-nested}]}}
broker_password: hush-broker
`

func TestSecretsAreNeverShown(t *testing.T) {
	settings := mustLoad(t, secrets)
	require.Equal(t, "hush-option", settings.Broker.Consume.AuthToken.Reveal())
	type outer struct {
		Exported Settings
		hidden   Settings
		pointer  *Settings
		broker   Broker
	}
	holder := outer{*settings, *settings, settings, settings.Broker}
	redacted, err := json.Marshal(settings.Redacted())
	require.NoError(t, err)
	groups, err := json.Marshal(settings.Broker.Consume.AuthToken)
	require.NoError(t, err)
	for _, shown := range []string{
		string(redacted), string(groups), settings.String(),
		fmt.Sprint(settings, *settings, settings.Broker, settings.Results, settings.EmbeddedBroker, settings.Sentry),
		fmt.Sprintf("%+v %#v %+v %#v", settings, settings, settings.Broker, settings.Broker),
		fmt.Sprintf("%v %+v %#v", holder, holder, holder),
	} {
		require.NotContains(t, shown, "hush")
	}
}

func TestRedacted(t *testing.T) {
	shown := mustLoad(t, secrets).Redacted()
	require.Equal(t, "kubemq://**@broker:50000", shown["broker_url"])
	require.Equal(t, "kubemq+tls://**@results:50000", shown["result_backend"])
	require.Equal(t, map[string]any{"auth_token": masked, "client_id_prefix": "shop"}, shown["broker_transport_options"])
	require.Equal(t, masked, shown["kubemq.auth_token"])
	require.Equal(t, masked, shown["database_url"])
	require.InDelta(t, 86400, shown["result_expires"], 0)
	require.Nil(t, shown["task_queues"])
	require.Equal(t, map[string]any{"shop.pay": map[string]any{
		"api_key": masked, "urls": []any{"redis://**@h"}, "nested": []any{map[string]any{"token": masked}},
	}}, shown["task_annotations"])
	require.Len(t, shown, len(Table()))
	require.Empty(t, mustLoad(t, "").Redacted()["kubemq.auth_token"], "what isn't set is not masked")
}

func TestStringListsWhatWasSet(t *testing.T) {
	require.Equal(t, "kubemq.auth_token: ********\ntask_acks_late: true\n",
		mustLoad(t, "task_acks_late: true\nkubemq: {auth_token: hush}").String())
	require.Empty(t, Settings{}.String())
}

func TestMistakesShowNoSecrets(t *testing.T) {
	for _, text := range []string{
		"kubemq: {auth_token: 7355608}",
		"sentry: {dsn: 7355608}",
		"kubemq: {auth_token: [7355608]}",
		"broker_transport_options: {auth_token: 7355608}",
		"auth_tokn: 7355608",
		"task_default_queue: {a: 7355608}",
		"broker_url: kubemq://:7355608@h:0",
		"timezone: kubemq://:7355608@h",
		"unprocessable_queue: kubemq://7355608@h%d",
		"accept_content: [\"redis://:7355608@h\"]",
	} {
		_, _, err := loadText(t, text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "7355608", text)
	}
}

func TestMaskURL(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"plain":                       "plain",
		"kubemq://h:1":                "kubemq://h:1",
		"kubemq://:p@h:1":             "kubemq://**@h:1",
		"kubemq://p@h:1":              "kubemq://**@h:1",
		"amqp://u:p@/@w@h//":          "amqp://**@h//",
		"redis://h/0?password=p&db=1": "redis://h/0?password=********&db=1",
		"redis://h/0?p%61ss=p":        "redis://h/0?p%61ss=********",
		"redis://h/0?%zz=p":           "redis://h/0?%zz=********",
		"a://u:p@h1;b://u:p@h2":       "a://**@h2",
	} {
		require.Equal(t, want, maskURL(text), text)
	}
}

func TestSecret(t *testing.T) {
	require.False(t, NewSecret("").IsSet())
	require.Equal(t, Secret{}, NewSecret(""))
	require.Empty(t, Secret{}.Reveal())
	require.Empty(t, Secret{}.String())
	s := NewSecret("hush")
	require.True(t, s.IsSet())
	require.Equal(t, "hush", s.Reveal())
	require.Equal(t, masked+" "+masked+` "`+masked+`"`, fmt.Sprintf("%s %v %#v", s, s, s))
	require.NotContains(t, fmt.Sprintf("%x %q %d", s, s, s), "68757368", "nor in hexadecimal")
	require.NotContains(t, fmt.Sprintf("%v", struct{ s Secret }{s}), "hush", "nor where fmt can't call String")
}
