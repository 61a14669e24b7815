#!/usr/bin/env bash
# Builds the worker, starts it with its embedded broker, lets real Celery send it
# tasks, and stops it. Needs Go and python3 (3.10 or later) with venv.
#
# PYTHON names another interpreter; LISTEN the broker's address, a free port of
# this machine by default.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
venv=$root/.venv-demo
requirements=$root/examples/demo/python/requirements.txt

wanted=$("$python" --version && cat "$requirements")
if [ "$wanted" != "$(cat "$venv/made-of" 2>/dev/null)" ]; then
  echo "== installing Celery into $(basename "$venv")"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements"
  echo "$wanted" >"$venv/made-of"
fi

scratch=$(mktemp -d)
worker=
# Leaves nothing behind, however the demo ends.
cleanup() {
  [ -z "$worker" ] || kill -KILL "$worker" 2>/dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT

echo "== building the worker"
(cd "$root" && go build -o "$scratch/worker" ./cmd/worker)

free_address() {
  "$python" -c 'import socket
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    print("127.0.0.1:%d" % s.getsockname()[1])'
}
listen=${LISTEN:-$(free_address)}
health=$(free_address)
cat >"$scratch/celery.yaml" <<YAML
broker: embedded
result_backend: embedded
embedded_broker:
  listen: $listen
  data_dir: $scratch/data
worker_concurrency: 8
health:
  listen: $health
YAML

echo "== starting worker --config celery.yaml with a broker at $listen"
"$scratch/worker" --config "$scratch/celery.yaml" >"$scratch/log" 2>&1 &
worker=$!

fail() {
  echo "demo: $*" >&2
  tail -n 40 "$scratch/log" >&2
  exit 1
}

# Asks the health check until the worker consumes, for half a minute at most.
ready=
for _ in $(seq 300); do
  kill -0 "$worker" 2>/dev/null || fail "the worker has ended"
  if "$scratch/worker" health --config "$scratch/celery.yaml" >/dev/null 2>&1; then
    ready=yes
    break
  fi
  sleep 0.1
done
[ -n "$ready" ] || fail "the worker is not ready"

echo "== Celery $("$venv/bin/python" -c 'import celery; print(celery.__version__)') sends, Go runs"
PYTHONPATH=$root/interop "$venv/bin/python" "$root/examples/demo/python/demo.py" "lovage://$listen" ||
  fail "a result is not what it should be"

echo "== stopping the worker with SIGTERM"
kill -TERM "$worker"
status=0
wait "$worker" || status=$?
worker=
[ "$status" = 0 ] || fail "the worker's exit status is $status"
echo "demo: ok"
