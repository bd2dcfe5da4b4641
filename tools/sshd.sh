#!/bin/sh
# An OpenSSH server for the tests, unpacked below .venv and not installed: an installed one would listen on
# port 22 of this machine. One that is there already is used.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

command -v sshd >/dev/null && exit 0
[ -x .venv/sshd/usr/sbin/sshd ] && exit 0
if ! command -v apt-get >/dev/null; then
    echo "tests: not a Debian or Ubuntu system; the tests of boards over SSH need sshd in PATH" >&2
    exit 0
fi
echo "tests: unpacking openssh-server into .venv/sshd" >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# libwrap0 is the one library of it that a minimal system lacks.
(cd "$folder" && { apt-get download -qq openssh-server libwrap0 || {
    if [ "$(id -u)" = 0 ]; then apt-get update -qq; else sudo -n apt-get update -qq; fi
    apt-get download -qq openssh-server libwrap0
}; } >&2)
for package in "$folder"/*.deb; do
    dpkg-deb --extract "$package" "$folder/root"
done
if [ "$(id -u)" = 0 ] && ! id sshd >/dev/null 2>&1; then
    echo "tests: making the system user sshd, which sshd wants for privilege separation" >&2
    useradd --system --no-create-home --home-dir /run/sshd --shell /usr/sbin/nologin sshd
fi
rm -rf .venv/sshd
mv "$folder/root" .venv/sshd
