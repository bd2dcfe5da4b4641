#!/bin/sh
# slim-cross.sh FOLDER: leaves of a GCC for another architecture what compiles and links.
set -eu
cd "$1/usr"
for name in asan hwasan lsan tsan ubsan itm quadmath; do
  find . \( -type f -o -type l \) -name "lib$name*" -delete
done
# Optimising at link time, the gold linker and what reads debug information.
rm -f bin/*-lto-dump* lib/gcc-cross/*/*/lto1 bin/*-ld.gold bin/*-dwp bin/*-gprof* bin/*-gcov*
