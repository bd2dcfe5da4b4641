#!/bin/sh
# The servers that tests start on loopback: an OpenSSH server, and Debian's image registry.
set -eu
cd "$(dirname "$0")"

./unpack.sh sshd openssh-server libwrap0 # the one library of it that a minimal system lacks
./unpack.sh docker-registry docker-registry
if [ "$(id -u)" = 0 ] && [ -d ../.venv/sshd ] && ! id sshd >/dev/null 2>&1; then
    echo "tests: making the system user sshd, which sshd wants for privilege separation" >&2
    useradd --system --no-create-home --home-dir /run/sshd --shell /usr/sbin/nologin sshd
fi
