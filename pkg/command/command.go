package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // time zones for images that have none

	"github.com/getsentry/sentry-go"
	"github.com/spf13/cobra"

	"github.com/lovage-project/lovage/pkg/config"
	"github.com/lovage-project/lovage/pkg/tasks"
	"github.com/lovage-project/lovage/pkg/tasks/onceresult"
)

// Version is what "worker version" prints; the linker sets it.
var Version = "dev"

// The exit codes: Celery's, and 2 for a configuration that can't be used.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Main runs the command line of a program whose tasks are in r, and exits.
func Main(r *tasks.Registry, options ...Option) {
	os.Exit(Run(context.Background(), r, os.Args[1:], os.Stdout, os.Stderr, options...)) //nolint:forbidigo // the one place that exits
}

// Run is Main for a program that goes on afterwards: it returns the exit code.
// While the worker runs it handles SIGTERM, SIGINT and SIGQUIT.
func Run(ctx context.Context, r *tasks.Registry, args []string, out, errOut io.Writer, options ...Option) int {
	p := &program{registry: r, out: out, errOut: errOut}
	for _, option := range options {
		option(p)
	}
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var ended *exitError
	if !errors.As(err, &ended) {
		ended = &exitError{code: exitUsage, err: err}
	}
	if ended.err != nil {
		p.complain(ended.err.Error())
	}
	return ended.code
}

// complain writes a line for the user. Where nobody reads it there is nobody
// to tell.
func (p *program) complain(text string) { _, _ = fmt.Fprintln(p.errOut, "worker:", text) }

func (p *program) warn(warning config.Warning) { p.complain("warning: " + warning.String()) }

// exitError ends the program with a code; err may be nil.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func failed(err error) error { return &exitError{code: exitFailure, err: err} }

// program is one run of the command line.
type program struct {
	registry    *tasks.Registry
	out, errOut io.Writer
	flags       flags
	// changeSentry is WithSentry's, nil without.
	changeSentry func(*sentry.ClientOptions)
	// onceResults is WithOnceResults's, nil without.
	onceResults *onceresult.Store
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "worker [flags] [-- setting=value ...]",
		Short: "Run the tasks of a Celery app in Go",
		Long: "Consumes Celery messages and runs their tasks with Go handlers.\n\n" +
			"Settings come from the file given by --config, from the environment and from\n" +
			"flags; see configs/celery.yaml for all of them.",
		Args: cobra.ArbitraryArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error { return p.serve(cmd.Context(), args) },
	}
	p.flags.addShared(root)
	p.flags.addWorker(root)
	root.AddCommand(p.checkCommand(), p.versionCommand(), p.brokerCommand(), p.callCommand(), p.healthCommand(), p.queuesCommand())
	root.AddCommand(p.dlqCommand())
	tellUsage(root)
	return root
}

// tellUsage adds to what cobra says about wrong arguments which ones a command takes.
func tellUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w: the usage is %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		tellUsage(sub)
	}
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.out, "lovage", Version)
			return err
		},
	}
}

// load reads the settings; warnings go to warn, one line each.
func (p *program) load(pairs []string, warn func(config.Warning)) (*config.Settings, error) {
	overrides, err := p.flags.overrides(pairs)
	if err != nil {
		return nil, err
	}
	settings, warnings, err := config.Load(config.Source{
		Path: p.flags.config, Environ: os.Environ(), Overrides: overrides,
	})
	if err != nil {
		return nil, err
	}
	for _, warning := range warnings {
		warn(warning)
	}
	return settings, nil
}
