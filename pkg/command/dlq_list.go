package command

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"
)

// The widest cells of the list, in characters.
const (
	widestName  = 80
	widestError = 100
)

func (d *dlqTool) listCommand() *cobra.Command {
	var filter letterFilter
	cmd := &cobra.Command{
		Use: "list QUEUE", Short: "List dead letters, the oldest first", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := filter.check(); err != nil {
				return err
			}
			return d.look(cmd.Context(), args[0], func(ctx context.Context, box *letterBox) error {
				found, err := box.find(ctx, filter.limit, filter.wants)
				if err != nil {
					return err
				}
				return d.printLetters(found)
			})
		},
	}
	filter.add(cmd)
	return cmd
}

func (d *dlqTool) printLetters(found []letter) error {
	listed := make([]listedLetter, len(found))
	rows := make([][]any, len(found))
	for i, l := range found {
		listed[i] = l.listed()
		rows[i] = []any{
			l.Time.Format(time.RFC3339), cell(l.Task, widestName), cell(cmp.Or(l.ID, l.MessageID), widestName), l.Attempts,
			cell(cmp.Or(l.Reason, rerouted(l)), widestName), cell(l.Detail, widestError),
		}
	}
	if d.json {
		return d.printJSON(listed)
	}
	return d.printTable("TIME\tTASK\tID\tATTEMPTS\tREASON\tERROR", rows)
}

// rerouted stands for the reason of a letter that the broker moved.
func rerouted(l letter) string {
	if l.Rerouted {
		return "(moved by the broker)"
	}
	return ""
}

// cell is a text in a table.
func cell(text string, most int) string { return cmp.Or(short(text, most), "-") }
