#!/bin/sh
# Make .venv-bench: the peers of benchmarks/requirements.lock, on top of .venv's packages, which stay as they are.
# Stamped at the end, so that a killed run is begun anew and a finished one kept.
set -eu
cd "$(dirname "$0")/.."

site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
wanted="$(sha256sum <benchmarks/requirements.lock) $site"
[ "$(cat .venv-bench/stamp 2>/dev/null)" = "$wanted" ] && exit 0

exec 9<benchmarks/requirements.lock
flock 9 # another make may be at it
[ "$(cat .venv-bench/stamp 2>/dev/null)" = "$wanted" ] && exit 0

echo "venv-bench: installing benchmarks/requirements.lock into .venv-bench (about 0.3 GB)" >&2
.venv/bin/python -m venv --clear --without-pip .venv-bench
echo "$site" >"$(.venv-bench/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth"
.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
    --no-deps --require-hashes --requirement benchmarks/requirements.lock
echo "$wanted" >.venv-bench/stamp
