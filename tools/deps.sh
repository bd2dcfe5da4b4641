#!/bin/sh
# Install the Debian/Ubuntu packages that are missing, set by set, and make container boards possible.
#   deps.sh [SET …] [PACKAGE …]    default: boards; `deps.sh --list` says what is in each set
#     venv    what .venv is made with
#     boards  emulated boards of 64-bit Arm classes, in containers where that can be had
#     armv7   those of 32-bit classes, too
#     opencl  OpenCL on this host's CPU
#     counts  instructions that programs for arm execute (`make bench-arm`)
#     all     every set: `make test`
# DEPS=skip leaves the system alone.
set -eu
cd "$(dirname "$0")"

packages_of() { # set
    case $1 in
        venv) echo python3-venv ;;
        # openssh-client reaches boards, qemu-user-static runs their programs here, libc6-arm64-cross is their C library
        boards) echo "$(packages_of venv)" openssh-client qemu-user-static libc6-arm64-cross ;;
        armv7) echo "$(packages_of boards)" libc6-armhf-cross ;;
        # pocl-opencl-icd computes on the CPU, oclgrind simulates kernels: counts what they execute, finds what leaves
        # its memory
        opencl) echo ocl-icd-libopencl1 pocl-opencl-icd oclgrind ;;
        # qemu-user takes plugins, which count; llvm-newest is the newest there is, for llvm-mca's models of arm cores
        counts) echo "$(packages_of armv7)" qemu-user llvm-newest ;;
        all) echo "$(packages_of counts)" "$(packages_of opencl)" ;;
        *) echo "$1" ;; # a package
    esac
}

[ $# -gt 0 ] || set -- boards
if [ "$1" = --list ]; then
    for set in venv boards armv7 opencl counts all; do echo "$set: $(packages_of $set)"; done
    exit 0
fi
packages=""
for set in "$@"; do packages="$packages $(packages_of "$set")"; done
# Without these, emulated boards are processes instead of containers:
# docker.io               runs them
# mmdebstrap, arch-test   unpack their system from Debian's packages
# debian-archive-keyring  checks who made those
# uidmap                  lets mmdebstrap keep their owners without being root
container_packages="docker.io mmdebstrap arch-test debian-archive-keyring uidmap"
case $packages in *qemu-user-static*) ;; *) container_packages="" ;; esac
# Docker from elsewhere does as well, and Debian's would push it out.
if [ -n "${DOCKER_HOST:-}" ] || command -v dockerd >/dev/null; then
    container_packages=${container_packages#docker.io }
fi

[ "${DEPS:-}" = skip ] && exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "deps: not a Debian or Ubuntu system; needed here are Python 3.11 with venv, an OpenSSH client," >&2
    echo "deps: and for emulated arm boards qemu-aarch64-static and qemu-arm-static with their C libraries," >&2
    echo "deps: for those in containers also Docker and mmdebstrap. Going on." >&2
    exit 0
fi

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root="sudo"
else
    as_root="none"
fi

exec 8<deps.sh
flock 8 # another make may be at it, and apt refuses the second

# Names that an installed package provides count too: package names differ between releases.
# shellcheck disable=SC2016  # ${…} is dpkg-query's own
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}, ${Provides}\n' | sed -n 's/^installed //p')

newest_llvm() { # as far as apt knows
    apt-cache search --names-only '^llvm-[0-9]+$' | sed 's/ .*//' | sort -V | tail -n 1
}

has() { # package; as llvm-newest an LLVM will do that knows the cores well, or that is the newest here
    case $1 in
        llvm-newest) newest=$(newest_llvm) && wanted="llvm-(19|[2-9][0-9]${newest:+|${newest#llvm-}})" ;;
        *) wanted=$1 ;;
    esac
    printf '%s\n' "$installed" | grep -Eq "(^|, )$wanted( |,|$)"
}

named() { # packages, llvm-newest by its name
    printf '%s\n' "$*" | sed "s/llvm-newest/$(newest_llvm)/"
}

offered() { # the packages that apt can install, as far as it knows
    for package in "$@"; do
        if apt-cache show "$(named "$package")" >/dev/null 2>&1; then printf ' %s' "$package"; fi
    done
}

lists_are_new=""
install_missing() { # packages; 3: nobody here may
    missing=""
    for package in "$@"; do
        has "$package" || missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    if [ "$as_root" = none ]; then
        echo "deps: neither root nor sudo here. As root, type:" >&2
        echo "    apt-get install -y --no-install-recommends$(named "$missing")" >&2
        return 3
    fi
    # shellcheck disable=SC2086  # one word per package, here and below
    if [ -n "$(offered $missing)" ] || ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then # else it knows others
        echo "deps: installing$missing" >&2
        [ -n "$lists_are_new" ] || $as_root apt-get update >&2 || return
        lists_are_new=yes
    fi
    known=$(offered $missing)
    for package in $missing; do # Debian 13 has no oclgrind: the demo needs none, tests that do are skipped there
        case "$known " in *" $package "*) ;; *) echo "deps: this system has no package $package. Going on." >&2 ;; esac
    done
    [ -n "$known" ] || return 0
    # Without what is recommended: qemu-user's would take the place of qemu-user-static's.
    # shellcheck disable=SC2046
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(named "$known") >&2
}

# shellcheck disable=SC2086  # one word per package
install_missing $packages || {
    code=$?
    [ $code != 3 ] || echo "or go on without them: DEPS=skip make …" >&2
    exit $code
}
[ -n "$container_packages" ] || exit 0
# Since Debian 13 Docker's client, which the tests call, is a package of its own.
if ! command -v docker >/dev/null && [ -n "$(offered docker-cli)" ]; then
    container_packages="$container_packages docker-cli"
fi
# shellcheck disable=SC2086
if ! install_missing $container_packages || ! ./docker.sh "$as_root"; then
    echo "deps: no containers here: emulated boards will be processes of this host. Going on." >&2
fi
