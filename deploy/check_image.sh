#!/bin/sh
# Start an image as users do and look at what it promises: deploy/check_image.sh IMAGE
#
# ISOLATION   "chroot" where the kernel or a sandbox allows no other
# RUN_OPTIONS for buildah, such as --volume /etc/pip.conf:/etc/pip.conf:ro
set -eu
image="${1:?Say which image: deploy/check_image.sh localhost/toolgate}"
container="$(buildah from --pull-never "$image")"
log="$(mktemp)"
pid=""

finish() {
  [ -z "$pid" ] || { kill "$pid" 2> /dev/null || true; wait "$pid" 2> /dev/null || true; }
  buildah rm "$container" > /dev/null
  rm -f "$log"
}
trap finish EXIT

inside() {
  # shellcheck disable=SC2086
  buildah run ${ISOLATION:+--isolation "$ISOLATION"} ${RUN_OPTIONS:-} "$container" -- "$@"
}

check() {
  if ! text="$(inside "$@" 2>&1)"; then
    printf 'failed: %s\n%s\n' "$*" "$text" >&2
    exit 1
  fi
  printf 'ok: %s: %s\n' "$*" "$(printf '%s' "$text" | head -n 1)"
}

check sh -c 'test "$(id -u)" = 10001 && id'
check sh -c '! touch /opt/toolgate/x 2> /dev/null && touch /data/x && rm /data/x && echo "only /data can be written"'
check toolgate --version
check node --version
check npx --version
check uvx --version
check toolgate config check

inside tini -- toolgate serve > "$log" 2>&1 &
pid=$!
if ! inside python -c '
import time, urllib.request
for attempt in range(300):
    try:
        urllib.request.urlopen("http://127.0.0.1:7420/healthz", timeout=4)
    except OSError:
        time.sleep(0.2)
    else:
        break
else:
    raise SystemExit("no answer")
'; then
  cat "$log" >&2
  exit 1
fi
health="$(buildah inspect --format '{{index .Docker.ContainerConfig.Healthcheck.Test 3}}' "$container" 2> /dev/null || true)"
[ -n "$health" ] || { echo "failed: the image has no health check" >&2; exit 1; }
check python -c "$health"
check toolgate tokens create image-check --role member
check toolgate status
echo "ok: $image"
