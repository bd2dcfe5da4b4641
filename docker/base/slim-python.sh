#!/bin/sh
# slim-python.sh FOLDER: leaves of Python's own library what steps use, compiled.
set -eu
cd "$1/usr/lib/python3.11"
rm -rf test idlelib turtledemo lib2to3 ensurepip pydoc_data tkinter config-3.11-*
cp -a "$1/." /
python3.11 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$1" -p / .
