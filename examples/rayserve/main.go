// Command rayserve is a worker that takes tasks of Ray Serve's KubeMQ adapter from one
// queue and Celery's from another. docs/rayserve.md explains it:
//
//	go run ./examples/rayserve --config examples/rayserve/celery.yaml
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/lovage-project/lovage/pkg/command"
	"github.com/lovage-project/lovage/pkg/tasks"
)

func main() { command.Main(registry()) }

func registry() *tasks.Registry {
	r := tasks.NewRegistry()
	tasks.Handle(r, "predict", predict)
	tasks.Handle(r, "shop.thank", thank, tasks.AcksLate())
	r.AddHook(onDLQ{})
	return r
}

// Predict is the Python signature predict(text, threshold=0.5).
type Predict struct {
	Text      string  `celery:"text"`
	Threshold float64 `celery:"threshold,default=0.5"`
}

// Prediction is a dict for the caller.
type Prediction struct {
	Label string  `celery:"label"`
	Score float64 `celery:"score"`
}

var errNoText = errors.New("there is no text")

func predict(ctx context.Context, in Predict) (Prediction, error) {
	words := strings.Fields(in.Text)
	if len(words) == 0 {
		return Prediction{}, tasks.WithPythonClass(errNoText, "builtins", "ValueError")
	}
	var score float64
	for i, word := range words {
		if ctx.Err() != nil { // the caller has cancelled the task, or a query's time is up
			return Prediction{}, context.Cause(ctx)
		}
		score += cheer(word) / float64(len(words))
		if err := tasks.Progress(ctx, 100*float64(i+1)/float64(len(words)), word); err != nil {
			slog.Warn("nobody hears of the progress", "error", err)
		}
	}
	if score < in.Threshold {
		return Prediction{Label: "dull", Score: score}, nil
	}
	return Prediction{Label: "cheerful", Score: score}, nil
}

// cheer stands for a model.
func cheer(word string) float64 {
	if strings.HasSuffix(word, "!") {
		return 1
	}
	return 1 / float64(utf8.RuneCountInString(word))
}

// onDLQ is the adapter's on_dlq. Celery's dead letters are told to it, too.
type onDLQ struct{}

func (onDLQ) OnDeadLetter(_ context.Context, taskID string, err error) {
	slog.Error("given up", "task_id", taskID, "error", err)
}

// Thank is the Python signature thank(name).
type Thank struct {
	Name string `celery:"name"`
}

func thank(_ context.Context, in Thank) (string, error) {
	return fmt.Sprintf("Thank you, %s!", in.Name), nil
}
