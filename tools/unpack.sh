#!/bin/sh
# A server for the tests, unpacked below .venv and not installed: an installed one would listen on a port
# of this machine. One that is there already is used.
#   unpack.sh PROGRAM PACKAGE...    into .venv/PROGRAM
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
program=$1
shift

command -v "$program" >/dev/null && exit 0
for file in ".venv/$program/usr/sbin/$program" ".venv/$program/usr/bin/$program"; do
    [ -x "$file" ] && exit 0
done
if ! command -v apt-get >/dev/null; then
    echo "tests: not a Debian or Ubuntu system; some tests need $program in PATH" >&2
    exit 0
fi
echo "tests: unpacking $program into .venv/$program" >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && { apt-get download -qq "$@" || {
    if [ "$(id -u)" = 0 ]; then apt-get update -qq; else sudo -n apt-get update -qq; fi
    apt-get download -qq "$@"
}; } >&2)
for package in "$folder"/*.deb; do
    dpkg-deb --extract "$package" "$folder/root"
done
rm -rf ".venv/$program"
mv "$folder/root" ".venv/$program"
