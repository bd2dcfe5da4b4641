#!/bin/sh
# Write requirements.lock: what pyproject.toml asks for, for every Python and machine, with hashes and without
# addresses. Versions that are locked and still fit stay. uv lies in an environment of its own, build/uv.
set -eu
cd "$(dirname "$0")/.."

if [ ! -x build/uv/bin/uv ]; then
    .venv/bin/python -m venv build/uv
    build/uv/bin/python -m pip install --quiet --disable-pip-version-check --no-input "uv>=0.9"
fi
exec build/uv/bin/uv pip compile --quiet pyproject.toml --extra dev --universal --generate-hashes --no-header \
    --no-emit-index-url --output-file requirements.lock
