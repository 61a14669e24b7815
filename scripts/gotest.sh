#!/usr/bin/env bash
# Runs go test with the given arguments. Where it fails, the names and first lines of
# what failed come again at the end: the goroutines of a test that hung fill pages.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
${GO:-go} test -timeout 8m "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
if [ "$status" -ne 0 ]; then
	echo "== what failed"
	grep -E '^\s*--- FAIL|^panic: |^FAIL|^WARNING: DATA RACE|^\s+Test\S+ \([0-9.hms]+\)$|Error Trace:|Error:  |Messages:  ' "$log" | head -60
fi
exit "$status"
