package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lovage-project/lovage/pkg/config"
)

// The environment beats the file, and the command line beats both.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "lovage")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "celery.yaml")
	const file = `
broker_url: kubemq://:secret@broker:50000
task_acks_late: true
worker_concurrency: 2
worker_prefetch_multiplier: 1
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	settings, warnings, err := config.Load(config.Source{
		Path:      path,
		Environ:   []string{"LOVAGE_WORKER_CONCURRENCY=8"},
		Overrides: map[string]string{"queues": "fast,slow"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(settings.Worker.Concurrency, settings.Worker.Queues, settings.Worker.AcksLate)
	fmt.Println(settings.Broker.Consume.Address, settings.Broker.Consume.AuthToken)
	fmt.Print(settings)
	for _, warning := range warnings {
		fmt.Println(warning.Setting+":", warning.Text)
	}
	// Output:
	// 8 [fast slow] true
	// broker:50000 ********
	// broker_url: kubemq://**@broker:50000
	// queues: [fast slow]
	// task_acks_late: true
	// worker_concurrency: 8
	// worker_prefetch_multiplier: 1
	// worker_prefetch_multiplier: has no effect here: the worker takes a message only when a slot is free
}

func ExampleError() {
	_, _, err := config.Load(config.Source{Overrides: map[string]string{"worker.concurency": "8"}})
	var mistake *config.Error
	fmt.Println(errors.As(err, &mistake), err)
	// Output:
	// true config: command line: worker.concurency: unknown setting, the nearest is worker_concurrency
}

func ExampleNodeName() {
	name, err := config.NodeName("mailer@%n", "george.example.com")
	fmt.Println(name, err)
	// Output: mailer@george <nil>
}

func ExampleTable() {
	for _, s := range config.Table() {
		if s.Name == "worker_concurrency" {
			fmt.Println(s.Env(), s.Allowed())
		}
	}
	// Output: LOVAGE_WORKER_CONCURRENCY a whole number, from 1 to 1000000 or auto
}
