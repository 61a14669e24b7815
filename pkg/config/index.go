package config

import (
	"maps"
	"slices"
	"strings"
)

// index finds settings by the names that sources use.
type index struct {
	table    []Setting
	names    []string
	byName   map[string]Setting
	byEnv    map[string]string // variable to name
	byOld    map[string]string // Celery's old name to name
	sections map[string]bool
}

func newIndex(table []Setting) index {
	x := index{
		table: table, byName: map[string]Setting{}, byEnv: map[string]string{},
		byOld: map[string]string{}, sections: map[string]bool{},
	}
	for _, s := range table {
		x.names = append(x.names, s.Name)
		x.byName[s.Name] = s
		x.byEnv[s.Env()] = s.Name
		for i, r := range s.Name {
			if r == '.' {
				x.sections[s.Name[:i]] = true
			}
		}
	}
	for _, s := range table {
		for _, old := range oldNames(s) {
			if _, taken := x.byOld[old]; !taken || old == s.Old {
				x.byOld[old] = s.Name
			}
		}
	}
	return x
}

func (x index) isSection(name string) bool { return x.sections[name] }

// resolve finds the setting that a command line means: its name, or Celery's
// forms worker.concurrency and .concurrency for worker_concurrency.
func (x index) resolve(name string) (string, bool) {
	name = strings.ToLower(name)
	if _, known := x.byName[name]; known {
		return name, true
	}
	flat := strings.ReplaceAll(name, ".", "_")
	if strings.HasPrefix(flat, "_") {
		flat = "worker" + flat
	}
	full, known := x.byEnv[envPrefix+strings.ToUpper(flat)]
	return full, known
}

// unknown says what is wrong with a name that no setting has.
func (x index) unknown(name string) string {
	if current, old := x.byOld[name]; old {
		return "old name, write " + current
	}
	candidates := slices.Concat(x.names, slices.Sorted(maps.Keys(x.sections)))
	if near := nearest(strings.ToLower(name), candidates); near != "" {
		return "unknown setting, the nearest is " + near
	}
	return "unknown setting"
}

// oldNames are the upper-case names that Python configurations use: those of
// Celery 3 (CELERYD_CONCURRENCY, CELERY_ACKS_LATE), and the setting in upper
// case with Django's usual prefix or without one.
func oldNames(s Setting) []string {
	upper := strings.ToUpper(s.Name)
	names := []string{upper, "CELERY_" + upper}
	for prefix, old := range map[string]string{"BEAT_": "CELERYBEAT_", "TASK_": "CELERY_", "WORKER_": "CELERYD_"} {
		if rest, found := strings.CutPrefix(upper, prefix); found {
			names = append(names, old+rest)
		}
	}
	if s.Old != "" {
		names = append(names, s.Old)
	}
	return names
}
