package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// FuzzLoad: whatever the file holds, Load ends with settings or with one-line
// mistakes, and shows no token.
func FuzzLoad(f *testing.F) {
	for _, path := range []string{exampleFile, quickstartFile} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add([]byte(strings.ReplaceAll(string(data), "\n#", "\n")))
	}
	f.Add([]byte(secrets))
	f.Add([]byte("task_routes: &a {b: *a, c: [*a, *a]}\ntask_queues: {a: *a}"))
	f.Add([]byte("queues: [{name: &a r, protocol: rayserve, max_retries: 3}, *a, {name: x, ? {} : y}]"))
	f.Add([]byte("? [a]\n: b\n<<: {log: x}\n!!binary x: 1\nresult_expires: 1e400\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const token = "7355608-7355608"
		source := Source{Path: "celery.yaml", Environ: []string{"LOVAGE_KUBEMQ_AUTH_TOKEN=" + token}}
		settings, warnings, err := load(source, data)
		for _, w := range warnings {
			checkLine(t, w.String())
		}
		if err != nil {
			checkMistakes(t, err)
			return
		}
		if len(settings.Worker.Queues) == 0 || settings.Worker.Concurrency < 1 || settings.Worker.Timezone == nil {
			t.Fatalf("settings that can't run: %v", settings)
		}
		if shown := fmt.Sprintf("%v %#v %v", settings, settings, settings.Redacted()); strings.Contains(shown, token) {
			t.Fatalf("the token is shown: %s", shown)
		}
	})
}

func checkMistakes(t *testing.T, err error) {
	t.Helper()
	mistakes := []error{err}
	if joined, many := err.(interface{ Unwrap() []error }); many {
		mistakes = joined.Unwrap()
	}
	for _, one := range mistakes {
		var mistake *Error
		if !errors.As(one, &mistake) {
			t.Fatalf("%T is no *Error", one)
		}
		checkLine(t, one.Error())
	}
}

func checkLine(t *testing.T, line string) {
	t.Helper()
	if line == "" || strings.ContainsAny(line, "\r\n") {
		t.Fatalf("not one line: %q", line)
	}
}

// FuzzMaskURL: no part of a token survives, wherever signs stand in it.
func FuzzMaskURL(f *testing.F) {
	f.Add("a", "b")
	f.Add("@:/?#", "&=;://")
	f.Fuzz(func(t *testing.T, before, after string) {
		const token = "7355608"
		if shown := maskURL("kubemq://:" + before + token + after + "@host"); strings.Contains(shown, token) {
			t.Fatalf("the token is shown: %s", shown)
		}
	})
}
