#!/bin/sh
# Put labgrid's client, coordinator and exporter into an environment of their own, .venv/labgrid: tests start them.
# labgrid is LGPL-2.1-or-later; it is called, and no part of this package. `tools/labgrid.sh lock` writes labgrid.lock anew.
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = lock ]; then
    if [ ! -x build/uv/bin/uv ]; then
        .venv/bin/python -m venv build/uv
        build/uv/bin/python -m pip install --quiet --disable-pip-version-check --no-input "uv>=0.9"
    fi
    echo "labgrid>=26" | exec build/uv/bin/uv pip compile --quiet - --universal --python-version 3.11 \
        --generate-hashes --no-header --no-annotate --no-emit-index-url --output-file tools/labgrid.lock
fi

into=.venv/labgrid
if [ -f "$into/lock" ] && cmp -s "$into/lock" tools/labgrid.lock; then
    exit 0
fi
python=${PYTHON:-.venv/bin/python}
[ -x "$python" ] || python=python3
rm -rf "$into"
"$python" -m venv "$into"
"$into/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps \
    -r tools/labgrid.lock
cp tools/labgrid.lock "$into/lock"
