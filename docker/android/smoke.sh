#!/bin/sh
# A library for Android is linked without an NDK, and by the NDK where the image has one.
set -eu
smoke=$(dirname "$0")/../smoke
. "$smoke/quiet.sh"

quiet "a network is written" python "$smoke/network.py" tiny.onnx
for linker in zig ${TVM_NDK_CC:+ndk}; do
    quiet "its library, linked by $linker, passes the ELF gate" \
        toolchain build tiny.onnx --board android-arm64 --engine host --linker "$linker" -o "$linker"
done
if [ -n "${TVM_NDK_CC:-}" ]; then
    quiet "the NDK compiles a C++ program" "$TVM_NDK_CC" -O2 -static-libstdc++ -o program "$smoke/program.cc"
fi
