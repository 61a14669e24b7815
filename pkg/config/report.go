package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// report gathers mistakes and warnings, to be told in the order of the sources:
// the file from top to bottom, then the environment, then the command line.
type report struct {
	errors   []finding[*Error]
	warnings []finding[Warning]
}

type finding[T any] struct {
	layer layer
	line  int
	value T
}

// fail reports a problem with a setting at a place, once: a setting may be used
// for several connections.
func (r *report) fail(setting string, at *raw, problem string) {
	mistake := Error{Origin: at.origin(), Setting: setting, Problem: problem}
	for _, told := range r.errors {
		if *told.value == mistake {
			return
		}
	}
	r.errors = append(r.errors, finding[*Error]{at.layer, at.line, &mistake})
}

// warn reports that a setting does not do what it says.
func (r *report) warn(setting string, at *raw, text string) {
	warning := Warning{Origin: at.origin(), Setting: setting, Text: text}
	r.warnings = append(r.warnings, finding[Warning]{at.layer, at.line, warning})
}

// maxMistakes is how many mistakes are told: a file that is no celery.yaml has a
// mistake in every line.
const maxMistakes = 20

// err joins the mistakes; nil if there were none.
func (r *report) err() error {
	mistakes := ordered(r.errors)
	var all []error
	for _, err := range mistakes[:min(len(mistakes), maxMistakes)] {
		all = append(all, err)
	}
	if more := len(mistakes) - maxMistakes; more > 0 {
		all = append(all, &Error{Problem: fmt.Sprintf("and %d more mistakes", more)})
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

func ordered[T any](findings []finding[T]) []T {
	slices.SortStableFunc(findings, func(a, b finding[T]) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.line, b.line))
	})
	values := make([]T, 0, len(findings))
	for _, f := range findings {
		values = append(values, f.value)
	}
	return values
}
