#!/bin/sh
# Make .venv what requirements.lock says, with this project installed in it (editable).
#   venv.sh [SET]    default: all
#     compilers  what compiles edge-rt, without the project
#     demo       what users of a wheel get: no linters, no test tools
#     all        the whole lock
# Each set is stamped at its end, so that a killed run is begun anew and a finished one kept.
set -eu
cd "$(dirname "$0")/.."
set=${1:-all}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

python=""
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if is_new_enough "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "venv: no Python 3.11 or newer found (tried ${PYTHON:-python3, python3.11 … python3.14})" >&2
    echo "venv: install one and name it: make PYTHON=/path/to/python3.12 …" >&2
    exit 3
fi

digest() { cat "$@" | sha256sum | cut -d' ' -f1; }
locked="$(digest requirements.lock) $("$python" -c 'import sys; print(sys.base_prefix, sys.version_info[:3])')"
project="$(digest pyproject.toml) $PWD"
is_stamped() { [ "$(cat ".venv/stamp-$1" 2>/dev/null)" = "$locked" ]; }
is_installed() { # with a set that holds it
    is_stamped lock || { [ "$set" != all ] && is_stamped demo; } || { [ "$set" = compilers ] && is_stamped compilers; }
}
is_current() {
    is_installed && { [ "$set" = compilers ] || [ "$(cat .venv/stamp-project 2>/dev/null)" = "$project" ]; }
}
is_current && exit 0

exec 9<requirements.lock
flock 9 # another make may be at it
is_current && exit 0

install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps "$@"; }

if ! is_installed; then
    if [ -e .venv/unfinished ] || ! { is_stamped demo || is_stamped compilers; }; then
        "$python" -m venv --clear .venv
    fi
    touch .venv/unfinished
    wanted=$(mktemp)
    trap 'rm -f "$wanted"' EXIT
    "$python" -m tools.distribution.locked "$set" >"$wanted"
    echo "venv: installing $(grep -c '^[a-z].*==' "$wanted") packages of requirements.lock into .venv (set $set)" >&2
    # Python compiles a module when it is first imported: most never are.
    install --no-compile --require-hashes --requirement "$wanted"
    case $set in all) stamp=lock ;; *) stamp=$set ;; esac
    echo "$locked" >".venv/stamp-$stamp"
    rm .venv/unfinished
fi
[ "$set" != compilers ] || exit 0
install --no-build-isolation --editable .
echo "$project" >.venv/stamp-project
