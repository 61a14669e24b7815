package main

import (
	"context"
	"fmt"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerFailures registers tasks that fail, each with another class of error.
func registerFailures(r *tasks.Registry) {
	tasks.Handle(r, "interop.fail_value_error", failValueError)
	tasks.Handle(r, "interop.fail_go_error", failGoError)
	tasks.Handle(r, "interop.fail_wrapped", failWrapped)
	tasks.Handle(r, "interop.fail_python_class", failPythonClass)
	tasks.Handle(r, "interop.panic", panics)
}

type messageInput struct {
	Message string `celery:"message"`
}

// valueError is raised as Python's own ValueError.
type valueError struct{ message string }

func (e valueError) Error() string { return e.message }

func (e valueError) PythonException() protocol.Exception {
	return protocol.Exception{Type: "ValueError", Module: "builtins", Args: []any{e.message}}
}

// QuotaError has no Python class; its name shows what Python makes of it.
type QuotaError struct{ Limit int }

func (e *QuotaError) Error() string { return fmt.Sprintf("quota of %d exceeded", e.Limit) }

// declinedError is raised as a class of the Python application.
type declinedError struct {
	code   int64
	reason string
}

func (e declinedError) Error() string { return "payment declined: " + e.reason }

func (e declinedError) PythonException() protocol.Exception {
	return protocol.Exception{Type: "PaymentDeclined", Module: "app", Args: []any{e.code, e.reason}}
}

func failValueError(_ context.Context, in messageInput) (any, error) {
	return nil, valueError{in.Message}
}

func failGoError(context.Context, struct{}) (any, error) {
	return nil, &QuotaError{Limit: 3}
}

// failWrapped hides the class behind the context that a caller added.
func failWrapped(_ context.Context, in messageInput) (any, error) {
	return nil, fmt.Errorf("while charging: %w", valueError{in.Message})
}

type declineInput struct {
	Code   int64  `celery:"code"`
	Reason string `celery:"reason"`
}

func failPythonClass(_ context.Context, in declineInput) (any, error) {
	return nil, declinedError{in.Code, in.Reason}
}

func panics(_ context.Context, in messageInput) (any, error) {
	panic(in.Message)
}
