package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configVariable names the configuration file where no flag does, for images.
const configVariable = "LOVAGE_CONFIG"

// flags are the flags of the worker and what its subcommands share. Flags that
// stand for a setting are Celery's.
type flags struct {
	config string
	set    *pflag.FlagSet
}

// settingFlags are the worker's flags and the settings they stand for.
var settingFlags = []struct{ name, short, setting, usage string }{
	{"hostname", "n", "hostname", "node name; %h, %n and %d stand for the host's name, its first part and its domain"},
	{"queues", "Q", "queues", "queues to consume, parted by commas"},
	{"exclude-queues", "X", "exclude_queues", "queues not to consume, parted by commas"},
	{"concurrency", "c", "worker_concurrency", "how many tasks run at the same time"},
	{"loglevel", "l", "log.level", "least severe line that is logged: debug, info, warning, error, critical"},
	{"log-format", "", "log.format", "console or json"},
	{"broker", "b", "broker_url", "URL of the broker"},
	{"result-backend", "", "result_backend", "URL of the result backend"},
}

// autoscaleFlag is Celery's flag for two settings: max,min or max alone.
const autoscaleFlag = "autoscale"

func (f *flags) addShared(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.config, "config", os.Getenv(configVariable),
		"configuration file; also $"+configVariable)
}

func (f *flags) addWorker(cmd *cobra.Command) {
	f.set = cmd.Flags()
	for _, flag := range settingFlags {
		f.set.StringP(flag.name, flag.short, "", flag.usage)
	}
	f.set.String(autoscaleFlag, "", "most and least tasks at the same time, as max,min; how many follows the depth of the queues")
}

// overrides are the settings that flags and trailing setting=value pairs give.
func (f *flags) overrides(pairs []string) (map[string]string, error) {
	overrides := map[string]string{}
	for _, pair := range pairs {
		name, value, found := strings.Cut(pair, "=")
		switch {
		case !found && strings.Contains(pair, "@"): // a URL, whose token is not to be repeated
			return nil, errors.New("a URL is no argument: broker_url=URL is")
		case !found:
			return nil, fmt.Errorf("argument %q is neither a command nor setting=value", pair)
		}
		overrides[name] = value
	}
	for _, flag := range settingFlags {
		if set := f.set.Lookup(flag.name); set.Changed {
			overrides[flag.setting] = set.Value.String()
		}
	}
	if set := f.set.Lookup(autoscaleFlag); set.Changed {
		most, least, both := strings.Cut(set.Value.String(), ",")
		if most == "" || both && least == "" {
			return nil, fmt.Errorf("--autoscale is %q, max,min or max is needed", set.Value)
		}
		overrides["worker_autoscale.max"] = most
		if both {
			overrides["worker_autoscale.min"] = least
		}
	}
	return overrides, nil
}
