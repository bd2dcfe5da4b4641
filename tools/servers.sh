#!/bin/sh
# What tests start or load without installing it: an OpenSSH server, programs of small boards, Debian's image registry,
# PostgreSQL, Mender, SoftHSM, labgrid.
set -eu
cd "$(dirname "$0")"

# What compiles edge-rt with sanitizers, and programs of users.
command -v g++ >/dev/null || command -v clang++ >/dev/null || ./deps.sh g++

with_libraries() { # PROGRAM PACKAGE…: unpacked with those of their libraries that a minimal system lacks
    program=$1
    shift
    # shellcheck disable=SC2046  # one word per package
    [ -d "../.venv/$program" ] || ./unpack.sh "$program" "$@" $(./needed.sh "$@" | grep '^lib')
}

with_libraries sshd openssh-server
# The roots of small boards (tests/boards/beds.py): busybox, a small SSH server, sudo.
with_libraries beds busybox dropbear-bin sudo
# The login shell of BSD.
with_libraries tcsh tcsh csh
./unpack.sh docker-registry docker-registry
if [ "$(id -u)" = 0 ] && [ -d ../.venv/sshd ] && ! id sshd >/dev/null 2>&1; then
    echo "tests: making the system user sshd, which sshd wants for privilege separation" >&2
    useradd --system --no-create-home --home-dir /run/sshd --shell /usr/sbin/nologin sshd
fi

# PostgreSQL of the release that this system has, with those libraries of it that are missing here. What is left
# out: Debian's own commands for it, and LLVM, with which it would compile queries.
newest_postgresql() { # as far as apt knows
    apt-cache search --names-only '^postgresql-[0-9]+$' | sed 's/ .*//' | sort -V | tail -n 1
}
postgresql_packages() {
    ./needed.sh "$(newest_postgresql)" |
        grep -Ev '^(perl|libperl|libllvm|libz3|libjson|libgdbm|locales|ssl-cert|.*-dev$|postgresql.*-common$)'
}
if [ -z "$(ls -d /usr/lib/postgresql/*/bin/initdb ../.venv/postgres/usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] &&
    command -v apt-cache >/dev/null; then
    if [ -z "$(newest_postgresql)" ]; then
        if [ "$(id -u)" = 0 ]; then apt-get update -qq >&2; else sudo -n apt-get update -qq >&2; fi || true
    fi
    packages=$(postgresql_packages || true)
    if [ -n "$packages" ]; then
        # shellcheck disable=SC2086  # one word per package
        ./unpack.sh postgres $packages
    else
        echo "tests: apt knows no PostgreSQL; some tests need its initdb and postgres" >&2
    fi
fi

# Mender's client and what writes its artifacts: they install a release as a fleet would.
with_libraries mender mender-client mender-artifact

# A PKCS#11 token in software, as smart cards are: a release is signed by a key in it.
./unpack.sh softhsm2-util softhsm2 softhsm2-common libsofthsm2

# A labgrid coordinator, an exporter and the client, from PyPI. labgrid is LGPL-2.1-or-later; it is called, and no
# part of this package.
./environment.sh tests/boards/labgrid/labgrid.lock .venv/labgrid
