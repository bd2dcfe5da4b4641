#!/bin/bash
# Run a command as on a machine that has never seen this project: in a clone of HEAD, with an empty HOME and a
# Docker engine of its own that has no image. All of it is removed at the end.
#   fresh.sh [COMMAND …]   default: make test; needs root, for the engine
# What it cannot take away: system packages that are installed already.
set -euo pipefail
source="$(cd "$(dirname "$0")/.." && pwd)"
[ $# -gt 0 ] || set -- make test
[ "$(id -u)" = 0 ] || { echo "fresh: a Docker engine of its own needs root: sudo $0 $*" >&2; exit 3; }
command -v dockerd >/dev/null || { echo "fresh: there is no dockerd: make deps" >&2; exit 3; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/edge-fresh-XXXXXX")
[ ${#folder} -le 60 ] || { echo "fresh: $folder is too long for Docker's sockets: set TMPDIR" >&2; rmdir "$folder"; exit 2; }
bridge=fresh$$
engine=""
command=""
clean() {
    trap - EXIT INT TERM HUP
    [ -z "$command" ] || kill -TERM -- "-$command" 2>/dev/null || true
    if [ -n "$engine" ]; then
        kill "$engine" 2>/dev/null || true # it stops its containers, its containerd, and unmounts its folder
        timeout 120 tail --pid="$engine" -f /dev/null || {
            kill -9 "$engine" "$(cat "$folder/exec/containerd/containerd.pid")" 2>/dev/null || true
        }
    fi
    ip link delete "$bridge" 2>/dev/null || true
    awk -v below="$folder/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount --lazy
    rm -rf --one-file-system "$folder"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

free_network() { # the first of 172.31.224.0/24 … that no interface has
    for third in $(seq 224 254); do
        ip -o -4 address | grep -qF " 172.31.$third." || { echo "172.31.$third.1/24"; return; }
    done
    return 1
}
network=$(free_network) || { echo "fresh: no free network for a bridge (172.31.224.0/24 and up)" >&2; exit 1; }
ip link add "$bridge" type bridge
ip address add "$network" dev "$bridge"
ip link set "$bridge" up

export DOCKER_HOST=unix://$folder/docker.sock
setsid dockerd --data-root "$folder/docker" --exec-root "$folder/exec" --pidfile "$folder/docker.pid" \
    --host "$DOCKER_HOST" --bridge "$bridge" </dev/null >"$folder/docker.log" 2>&1 &
engine=$!
for _ in $(seq 120); do
    docker info >/dev/null 2>&1 && break
    kill -0 "$engine" 2>/dev/null || { tail -n 5 "$folder/docker.log" >&2; exit 1; }
    sleep 0.5
done
docker info >/dev/null || { echo "fresh: the Docker engine does not answer; $(tail -n 1 "$folder/docker.log")" >&2; exit 1; }

git clone --quiet "$source" "$folder/clone"
mkdir "$folder/home"
cd "$folder/clone"
for name in $(compgen -e | grep -E '^(TOOLCHAIN_|XDG_|VIRTUAL_ENV)' || true); do unset "$name"; done
set -m # the command gets a process group of its own, which can be ended as a whole
HOME=$folder/home "$@" </dev/null &
command=$!
wait "$command"
