package observe

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/getsentry/sentry-go"

	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/worker"
)

// failed reports a failure, unless it is expected or left out. A Reject is a
// decision of the handler and no failure, as in Python's SDK.
func (s *Sentry) failed(e worker.TaskFailed) {
	var rejected *tasks.RejectError
	if outcome, _ := tasks.OutcomeOf(e.Err); errors.As(outcome, &rejected) {
		s.mark(e.Request, sentry.SpanStatusAborted)
		return
	}
	s.mark(e.Request, sentry.SpanStatusInternalError)
	if e.Expected || s.leftOut(e) {
		return
	}
	run := s.runOf(e.Request)
	if run == nil { // the arguments were none, and no handler was called
		run = s.newRun(context.Background(), e.Request)
	}
	report := sentry.NewEvent()
	report.Level = sentry.LevelError
	report.Transaction = e.Request.Task
	report.Exception = s.exceptions(e)
	// Sentry's own grouping, by task: one helper fails in many.
	report.Fingerprint = []string{"{{ default }}", e.Request.Task}
	if errors.Is(e.Err, tasks.ErrMaxRetriesExceeded) {
		report.Tags = map[string]string{"max_retries_exceeded": "true"}
	}
	run.hub.CaptureEventWithHint(report, &sentry.EventHint{OriginalException: e.Err, Context: run.context})
}

// leftOut tells whether the settings leave out the error.
func (s *Sentry) leftOut(e worker.TaskFailed) bool {
	if s.options.IgnoreMaxRetries && errors.Is(e.Err, tasks.ErrMaxRetriesExceeded) {
		return true
	}
	if len(s.options.IgnoreErrors) == 0 {
		return false
	}
	names := []string{e.Exception.Type, e.Exception.Module + "." + e.Exception.Type}
	for _, node := range errorTree(e.Err) {
		names = append(names, typeNames(node.err)...)
	}
	return slices.ContainsFunc(s.options.IgnoreErrors, func(ignored string) bool {
		return slices.Contains(names, strings.TrimPrefix(ignored, "*"))
	})
}

// typeNames are the names of an error's Go type: fs.PathError, io/fs.PathError.
func typeNames(err error) []string {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return []string{t.String(), t.PkgPath() + "." + t.Name()}
}

// exceptions is the chain of the error as Sentry wants it, the innermost first. The
// outermost has the class that Python sees.
func (s *Sentry) exceptions(e worker.TaskFailed) (chain []sentry.Exception) {
	outermost := sentry.Exception{
		Type: e.Exception.Type, Module: e.Exception.Module, Value: cut(fmt.Sprint(e.Err), maxText),
		Mechanism: &sentry.Mechanism{Type: "celery", Handled: sentry.Pointer(false)},
	}
	var argument *tasks.ArgumentError
	if !s.options.SendArgs && errors.As(e.Err, &argument) { // its text quotes the value
		outermost.Value = "the arguments don't fit: " + argument.Argument
		return []sentry.Exception{outermost}
	}
	// Methods of errors are the user's: where one panics, the outermost is all.
	defer func() {
		if recover() != nil {
			chain = []sentry.Exception{outermost}
		}
	}()
	for i, node := range errorTree(e.Err) {
		exception := outermost
		if i > 0 {
			exception = sentry.Exception{Type: fmt.Sprintf("%T", node.err), Mechanism: &sentry.Mechanism{
				Type: "chained", Source: node.source, ExceptionID: i, ParentID: sentry.Pointer(node.parent),
			}}
		}
		// An error that was given a class begins with it where it has no other text.
		exception.Value = cut(strings.TrimPrefix(node.err.Error(), exception.Type+": "), maxText)
		exception.Mechanism.IsExceptionGroup = node.group
		exception.Stacktrace = stackOf(node.err)
		chain = append(chain, exception)
	}
	slices.Reverse(chain)
	return chain
}

// maxErrors bounds the errors of a chain that are sent.
const maxErrors = 20

// errorNode is one error of a chain, which is a tree where errors are joined.
type errorNode struct {
	err    error
	parent int    // position of the error that wraps it
	source string // how the wrapping error names it
	group  bool   // it wraps several
}

// errorTree lists an error and what it wraps, outermost first and each error before
// what it wraps. That the retries are used up is no error of its own where there is
// a cause: Celery's failure is the cause.
func errorTree(err error) []errorNode {
	nodes := []errorNode{{err: causeOf(err)}}
	for i := 0; i < len(nodes); i++ {
		switch wrapping := nodes[i].err.(type) { //nolint:errorlint // each error is asked itself
		case interface{ Unwrap() error }:
			nodes = appendNode(nodes, wrapping.Unwrap(), i, "unwrap")
		case interface{ Unwrap() []error }:
			nodes[i].group = true
			for j, inner := range wrapping.Unwrap() {
				nodes = appendNode(nodes, inner, i, fmt.Sprintf("errors[%d]", j))
			}
		}
	}
	return nodes
}

func appendNode(nodes []errorNode, err error, parent int, source string) []errorNode {
	if err == nil || len(nodes) == maxErrors {
		return nodes
	}
	return append(nodes, errorNode{err: causeOf(err), parent: parent, source: source})
}

func causeOf(err error) error {
	if exhausted, ok := err.(*tasks.ExhaustedError); ok && exhausted.Cause != nil { //nolint:errorlint // this error only
		return exhausted.Cause
	}
	return err
}

// maxFrames bounds the stack that is sent.
const maxFrames = 100

// stackOf is the stack that an error carries: a panic's, or one that
// github.com/pkg/errors and its like have made.
func stackOf(err error) *sentry.Stacktrace {
	traced, ok := err.(interface{ Callers() []uintptr })
	if !ok {
		return sentry.ExtractStacktrace(err)
	}
	callers := traced.Callers()
	if len(callers) == 0 {
		return nil
	}
	var frames []sentry.Frame
	iterator := runtime.CallersFrames(callers[:min(len(callers), maxFrames)])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = iterator.Next()
		frames = append(frames, sentry.NewFrame(frame))
	}
	slices.Reverse(frames)
	return &sentry.Stacktrace{Frames: frames}
}
