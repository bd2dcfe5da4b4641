#!/bin/sh
# slim.sh FOLDER: leaves of GCC what compiles and links for arm-linux-gnueabihf.
set -eu
cd "$1/usr"
for name in asan hwasan lsan tsan ubsan itm quadmath; do
  find . \( -type f -o -type l \) -name "lib$name*" -delete
done
