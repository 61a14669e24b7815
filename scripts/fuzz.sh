#!/usr/bin/env bash
# Runs every fuzz target of the module in turn, each for the given time.
set -euo pipefail
time=${1:-30s}
cd "$(dirname "$0")/.."
go list -f '{{if .TestGoFiles}}{{.Dir}}{{else if .XTestGoFiles}}{{.Dir}}{{end}}' ./... | while read -r dir; do
	grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u | while read -r target; do
		echo "== ${dir#"$PWD"/} $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir"
	done
done
