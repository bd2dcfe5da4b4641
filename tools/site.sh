#!/bin/sh
# Make build/mkdocs: docs/site/requirements.lock, what builds the documentation site, in an environment of its own.
# Stamped at the end, so that a killed run is begun anew and a finished one kept.
set -eu
cd "$(dirname "$0")/.."

wanted="$(sha256sum <docs/site/requirements.lock) $(.venv/bin/python -c 'import sys; print(sys.base_prefix, sys.version)')"
is_current() { [ "$(cat build/mkdocs/stamp 2>/dev/null)" = "$wanted" ]; }
is_current && exit 0

exec 9<docs/site/requirements.lock
flock 9 # another make may be at it
is_current && exit 0

echo "site: installing docs/site/requirements.lock into build/mkdocs (about 80 MB)" >&2
.venv/bin/python -m venv --clear --without-pip build/mkdocs
.venv/bin/python -m pip --python build/mkdocs/bin/python install --quiet --disable-pip-version-check --no-input \
    --no-deps --require-hashes --requirement docs/site/requirements.lock
echo "$wanted" >build/mkdocs/stamp
