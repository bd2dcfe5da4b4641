#!/bin/sh
# Install what writes a bill of materials into .venv/sbom, on top of .venv's packages, as tools/distribution/sbom.lock says.
set -eu
cd "$(dirname "$0")/.."

wanted=$(sha256sum <tools/distribution/sbom.lock)
[ "$(cat .venv/sbom/stamp 2>/dev/null)" = "$wanted" ] && exit 0
echo "sbom: installing tools/distribution/sbom.lock into .venv/sbom" >&2
.venv/bin/python -m venv --clear --without-pip .venv/sbom
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$(.venv/sbom/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth"
.venv/bin/python -m pip --python .venv/sbom/bin/python install --quiet --disable-pip-version-check --no-input \
    --no-deps --require-hashes --requirement tools/distribution/sbom.lock
echo "$wanted" >.venv/sbom/stamp
