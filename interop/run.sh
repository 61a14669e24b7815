#!/usr/bin/env bash
# Runs the interop tests: Celery from PyPI against the Go worker, built from this
# tree. Needs python3 (3.10 or later) with venv, and Go.
#
#   interop/run.sh                      both Celery versions, and the wire formats
#   interop/run.sh new [PYTEST-ARGS]    the newest one, all tests
#   interop/run.sh old [PYTEST-ARGS]    the oldest one, the core tests
#
# PYTHON names another interpreter. The virtual environments are kept in
# .venv-interop-* and made again when their requirements or the interpreter change.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}

# venv VERSION makes the virtual environment of a version and sets $venv to it. A
# failure is passed on by hand: callers that look at the status switch set -e off.
venv() {
  venv=$root/.venv-interop-$1
  local requirements=$root/interop/requirements-$1.txt wanted
  wanted=$("$python" --version && cat "$requirements") || return
  if [ "$wanted" != "$(cat "$venv/made-of" 2>/dev/null)" ]; then
    rm -rf "$venv"
    "$python" -m venv "$venv" || return
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements" || return
    # Last, so that an installation that was broken off is made again.
    echo "$wanted" >"$venv/made-of"
  fi
}

# suite VERSION SELECTION [PYTEST-ARGS] runs the tests with one Celery.
suite() {
  venv "$1" || return
  "$venv/bin/python" -c 'import celery, kombu
print("== Celery", celery.__version__, "kombu", kombu.__version__)'
  (cd "$root/interop" && "$venv/bin/python" -m pytest -m "$2" "${@:3}")
}

# formats lets the newest Celery read what package protocol writes.
formats() {
  venv new || return
  (cd "$root" && LOVAGE_PYTHON=$venv/bin/python go test -count=1 -tags interop -run '^TestInterop' ./pkg/protocol)
}

binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
(cd "$root" && go build -o "$binaries/interop-worker" ./interop/worker && go build -o "$binaries/worker" ./cmd/worker &&
  go build -o "$binaries/quirkbroker" ./interop/quirkbroker && go build -o "$binaries/requestpeer" ./interop/requestpeer &&
  go build -o "$binaries/rayserve-worker" ./examples/rayserve && go build -o "$binaries/rayserve-client" ./examples/rayserve/client)
export LOVAGE_WORKER_BIN=$binaries/interop-worker LOVAGE_BIN=$binaries/worker LOVAGE_QUIRKBROKER_BIN=$binaries/quirkbroker
export LOVAGE_REQUESTPEER_BIN=$binaries/requestpeer
export LOVAGE_RAYSERVE_WORKER_BIN=$binaries/rayserve-worker LOVAGE_RAYSERVE_CLIENT_BIN=$binaries/rayserve-client

case ${1:-both} in
both)
  # Each runs, whatever the one before has found.
  status=0
  formats || status=$?
  suite new '' || status=$?
  suite old 'core and not typed_json' || status=$?
  exit "$status"
  ;;
new) suite new '' "${@:2}" ;;
old) suite old 'core and not typed_json' "${@:2}" ;;
*)
  sed -n '5,7s/^# *//p' "$0" >&2
  exit 2
  ;;
esac
