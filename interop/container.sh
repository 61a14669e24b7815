#!/usr/bin/env bash
# Checks what a container needs of bin/worker without a container engine: a
# static binary that runs in an empty root directory as a user that is not root,
# with a health check through the binary itself. Also the compose file.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(mktemp -d)
pid=
stop() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	rm -rf "$root"
}
trap stop EXIT

fail() { echo "container: $*" >&2; exit 1; }

if ldd bin/worker >/dev/null 2>&1; then fail "bin/worker is not static"; fi
cp bin/worker "$root/worker"
mkdir -p "$root/data" "$root/etc"
chmod 755 "$root"
chown 65532:65532 "$root/data" 2>/dev/null || true

# As in the image: nothing but the binary, another user, no shell. It replaces the
# subshell it is called in, so that signals reach the binary.
become() {
	if [ "$(id -u)" = 0 ]; then
		exec chroot --userspec=65532:65532 "$root" /worker "$@"
	else
		exec unshare --map-root-user chroot "$root" /worker "$@"
	fi
}
inside() { (become "$@"); }

inside version
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
health=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$root/etc/celery.yaml" <<YAML
broker: embedded
embedded_broker:
  listen: 127.0.0.1:$port
  data_dir: /data
result_backend: embedded
health:
  listen: 127.0.0.1:$health
YAML
become --config /etc/celery.yaml >"$root/log" 2>&1 &
pid=$!
for _ in $(seq 100); do
	if inside health --config /etc/celery.yaml >/dev/null 2>&1; then break; fi
	sleep 0.1
done
inside health --config /etc/celery.yaml || { cat "$root/log"; fail "the health check does not pass"; }
answer=$(inside call --config /etc/celery.yaml demo.add 2 3)
[ "$answer" = 5 ] || fail "demo.add 2 3 gave '$answer'"
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
[ "$code" = 0 ] || { cat "$root/log"; fail "the worker's exit code is $code"; }
pid=
[ -n "$(ls -A "$root/data")" ] || fail "no data was written"

# Either of Docker's two commands can check the compose file.
if docker compose version >/dev/null 2>&1; then
	compose=(docker compose)
elif command -v docker-compose >/dev/null; then
	compose=(docker-compose)
else
	fail "the compose file can't be checked: install docker-compose"
fi
"${compose[@]}" config -q
BROKER=kubemq "${compose[@]}" --profile kubemq config -q
[[ $("${compose[@]}" config) == *lovage://broker:50000* ]] || fail "the app of the compose file does not get the broker's URL"
echo "container: ok"
