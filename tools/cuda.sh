#!/bin/sh
# Install NVIDIA's compiler for CUDA into .venv, as docker/cuda/requirements.lock says.
set -eu
cd "$(dirname "$0")/.."

locked="$(sha256sum docker/cuda/requirements.lock | cut -d' ' -f1) $(cat .venv/stamp-lock)"
is_current() { [ "$(cat .venv/stamp-cuda 2>/dev/null)" = "$locked" ]; }
is_current && exit 0

exec 9<docker/cuda/requirements.lock
flock 9 # another make may be at it
is_current && exit 0

echo "cuda: installing docker/cuda/requirements.lock into .venv (600 MB)" >&2
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
    --no-deps --no-compile --require-hashes --requirement docker/cuda/requirements.lock
echo "$locked" >.venv/stamp-cuda
