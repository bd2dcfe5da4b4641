#!/bin/sh
# Make an environment of its own for a tool: environment.sh [--on-top] LOCK FOLDER
#   --on-top  the packages of .venv are found there, too
# Stamped at the end, so that a killed run is begun anew and a finished one kept.
set -eu
cd "$(dirname "$0")/.."

on_top=
[ "$1" != --on-top ] || { on_top=yes; shift; }
lock=$1
folder=$2
packages='import sysconfig; print(sysconfig.get_path("purelib"))'

wanted="$(sha256sum <"$lock") $on_top $(.venv/bin/python -c "$packages; import sys; print(sys.base_prefix, sys.version)")"
is_current() { [ "$(cat "$folder/stamp" 2>/dev/null)" = "$wanted" ]; }
is_current && exit 0

exec 9<"$lock"
flock 9 # another make may be at it
is_current && exit 0

echo "environment: installing $lock into $folder" >&2
.venv/bin/python -m venv --clear --without-pip "$folder"
[ -z "$on_top" ] || .venv/bin/python -c "$packages" >"$("$folder/bin/python" -c "$packages")/project.pth"
.venv/bin/python -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check --no-input \
    --no-deps --require-hashes --requirement "$lock"
echo "$wanted" >"$folder/stamp"
