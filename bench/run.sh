#!/usr/bin/env bash
# Measures Lovage's worker beside a bare loop, Celery and other Go workers, and sets up
# what that needs: a Redis server, a virtual environment, the programs.
#
#   bench/run.sh [FLAGS]   see go run ./bench/worker -help
#
# PYTHON names another interpreter. The virtual environment is kept in .venv-bench and
# made again when its requirements or the interpreter change.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
go=${GO:-go}

# redis finds a server, or installs Debian's; the benchmark starts one of its own.
redis() {
  command -v redis-server >/dev/null && return
  echo "== installing redis-server" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -qq --no-install-recommends redis-server >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server >/dev/null; }
}

# venv makes the virtual environment of Celery and sets $venv to it.
venv() {
  venv=$root/.venv-bench
  local requirements=$root/bench/celery/requirements.txt wanted
  wanted=$("$python" --version && cat "$requirements")
  if [ "$wanted" != "$(cat "$venv/made-of" 2>/dev/null)" ]; then
    echo "== installing Celery" >&2
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements"
    # Last, so that an installation that was broken off is made again.
    echo "$wanted" >"$venv/made-of"
  fi
}

redis
venv
binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
cd "$root"
# As the release is built, so that its size and speed are what users have.
CGO_ENABLED=0 "$go" build -trimpath -tags grpcnotrace -ldflags '-s -w' -o "$binaries/" ./bench/lovage
"$go" build -o "$binaries/bench-worker" ./bench/worker
# The peers have a module of their own, so that users don't inherit what they need.
(cd bench/peers && "$go" build -trimpath -ldflags '-s -w' -o "$binaries/" ./asynq ./gocelery)

"$binaries/bench-worker" -lovage "$binaries/lovage" -asynq "$binaries/asynq" -gocelery "$binaries/gocelery" \
  -celery "$venv/bin/celery" -python bench/celery:interop "$@"
