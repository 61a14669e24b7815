package command

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// letterFilter says which letters are meant: those for which all that is given is
// true.
type letterFilter struct {
	task, errorText, reason string
	ids                     []string
	olderThan, newerThan    time.Duration
	limit                   int
	now                     time.Time
}

func (f *letterFilter) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.task, "task", "", "only this task; * and ? stand for any characters and one")
	cmd.Flags().StringVar(&f.errorText, "error", "", "only with this text in the first or last error, such as the name of its class")
	cmd.Flags().StringVar(&f.reason, "reason", "", "only with this reason, such as rejected")
	cmd.Flags().StringArrayVar(&f.ids, "id", nil, "only this id of a task or of the broker's message; may be given again")
	cmd.Flags().DurationVar(&f.olderThan, "older-than", 0, "only those that died so long ago or longer, such as 90m")
	cmd.Flags().DurationVar(&f.newerThan, "newer-than", 0, "only those that died less long ago")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "only the oldest so many of them; 0 = all")
}

// check reports a filter that makes no sense, and sets the time that ages are
// counted from.
func (f *letterFilter) check() error {
	f.now = time.Now()
	if _, err := path.Match(f.task, ""); err != nil {
		return fmt.Errorf("--task %q: %w", f.task, err)
	}
	if f.olderThan < 0 || f.newerThan < 0 {
		return errors.New("--older-than and --newer-than are not negative")
	}
	if f.limit < 0 {
		return fmt.Errorf("--limit %d is negative", f.limit)
	}
	return nil
}

// given tells whether anything narrows the letters down.
func (f *letterFilter) given() bool {
	return f.task != "" || f.errorText != "" || f.reason != "" || len(f.ids) > 0 || f.olderThan > 0 || f.newerThan > 0
}

// wants tells whether l is meant, the limit aside.
func (f *letterFilter) wants(l letter) bool {
	return f.wantsTask(l.Task) &&
		(f.errorText == "" || strings.Contains(l.Detail, f.errorText) || strings.Contains(l.FirstError, f.errorText)) &&
		(f.reason == "" || f.reason == l.Reason) &&
		(len(f.ids) == 0 || slices.ContainsFunc(f.ids, l.goesBy)) &&
		f.wantsAge(f.now.Sub(l.Time))
}

func (f *letterFilter) wantsTask(task string) bool {
	if f.task == "" {
		return true
	}
	match, err := path.Match(f.task, task)
	return err == nil && match
}

func (f *letterFilter) wantsAge(age time.Duration) bool {
	return (f.olderThan == 0 || age >= f.olderThan) && (f.newerThan == 0 || age < f.newerThan)
}
