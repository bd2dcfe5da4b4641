#!/bin/sh
# Install the Debian/Ubuntu packages that are missing. DEPS=skip leaves the system alone.
set -eu

# python3-venv       makes .venv
# openssh-client     reaches boards
# qemu-user-static   runs programs of arm boards on this host
# libc6-arm64-cross  the C library for them
packages="python3-venv openssh-client qemu-user-static libc6-arm64-cross"

[ "${DEPS:-}" = skip ] && exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "deps: not a Debian or Ubuntu system; needed here are Python 3.11 with venv, an OpenSSH client," >&2
    echo "deps: and for emulated arm boards qemu-aarch64-static with an arm64 C library. Going on." >&2
    exit 0
fi

# Names that an installed package provides count too: package names differ between releases.
# shellcheck disable=SC2016  # ${…} is dpkg-query's own
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}, ${Provides}\n' | sed -n 's/^installed //p')
missing=""
for package in $packages; do
    printf '%s\n' "$installed" | grep -Eq "(^|, )$package( |,|$)" || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

echo "deps: installing$missing" >&2
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root="sudo"
else
    echo "deps: neither root nor sudo here. As root, type:" >&2
    echo "    apt-get install -y --no-install-recommends$missing" >&2
    echo "or go on without them: DEPS=skip make …" >&2
    exit 3
fi
# shellcheck disable=SC2086  # one word per package
{
    $as_root apt-get update
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
} >&2
