#!/bin/sh
# What the base image compiles for x86-64 runs in it.
set -eu
smoke=$(dirname "$0")/../smoke
. "$smoke/quiet.sh"
# The C++ library is compiled from source: once for a cache.
ZIG_GLOBAL_CACHE_DIR=${TOOLCHAIN_CACHE_DIR:-$PWD}/zig
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR="$ZIG_GLOBAL_CACHE_DIR"

quiet "zig compiles a C++ program" \
    python -m ziglang c++ -target x86_64-linux-gnu.2.27 -O2 -o program "$smoke/program.cc"
quiet "it runs" says 5050 ./program
quiet "a network is written" python "$smoke/network.py" tiny.onnx
quiet "its library passes the ELF gate" toolchain build tiny.onnx --board local --engine host -o out
quiet "its results are onnxruntime's" toolchain verify out/tiny-local.bundle --board local
