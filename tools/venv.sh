#!/bin/sh
# Make .venv what requirements.lock says, with this project installed in it (editable).
# What was installed is stamped at the end, so that a killed run is begun anew and a finished one kept.
set -eu
cd "$(dirname "$0")/.."

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
is_current() {
    [ "$(cat .venv/stamp-lock 2>/dev/null)" = "$locked" ] &&
        [ "$(cat .venv/stamp-project 2>/dev/null)" = "$project" ]
}
is_current && exit 0

exec 9<requirements.lock
flock 9 # another make may be at it
is_current && exit 0

if [ "$(cat .venv/stamp-lock 2>/dev/null)" != "$locked" ]; then
    echo "venv: installing requirements.lock into .venv (about 1.5 GB, some minutes)" >&2
    "$python" -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
        --require-hashes --requirement requirements.lock
    echo "$locked" >.venv/stamp-lock
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
    --no-deps --no-build-isolation --editable .
echo "$project" >.venv/stamp-project
