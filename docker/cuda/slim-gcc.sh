#!/bin/sh
# slim-gcc.sh FOLDER: leaves of GCC what compiles and links for this machine.
set -eu
cd "$1/usr"
for name in asan lsan tsan ubsan itm quadmath; do
    find . \( -type f -o -type l \) -name "lib$name*" -delete
done
rm -rf lib/gcc/x86_64-linux-gnu/*/lto1 lib/gcc/x86_64-linux-gnu/*/plugin lib/gcc/x86_64-linux-gnu/*/libstdc++.a \
    bin/*gcov* bin/*lto-dump* bin/*gp* bin/*dwp
# libc6-dev brings the libraries of NIS, and those Kerberos and OpenSSL.
cd lib/x86_64-linux-gnu
rm -rf libc.a libm-*.a libmvec.a libtirpc* libnsl* libgssapi* libkrb5* libk5* krb5 libssl* libcrypto* engines-3 ossl-modules \
    gprofng libgprofng*
