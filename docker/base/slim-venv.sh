#!/bin/sh
# slim-venv.sh VENV: removes from its packages what no step uses.
set -eu
cd "$1/lib/python3.11/site-packages"
# Tests of packages; what is named `testing` is imported by others, and zig compiles its tests.
find . -depth -type d ! -path './ziglang/*' \( -name tests -o -name __pycache__ \) -exec rm -r {} +
rm -rf onnx/backend/test onnxruntime/transformers onnxruntime/tools

# TVM: sources are kept that edge-rt is compiled from.
rm -rf tvm/3rdparty/cutlass tvm/lib/libtvm_runtime_cuda.so tvm_ffi/3rdparty/libbacktrace

# cmake: only cmake itself is called.
rm -rf cmake/data/bin/ctest cmake/data/bin/cpack cmake/data/bin/ccmake cmake/data/doc cmake/data/man \
  cmake/data/share/cmake-*/Help cmake/data/share/doc

# zig: documentation, and what is for other systems and processors.
cd ziglang
ln -sf "$PWD/zig" "$1/bin/zig"
rm -rf doc lib/docs lib/libtsan lib/compiler lib/build-web lib/lldb lib/init \
  lib/libc/mingw lib/libc/musl lib/libc/wasi lib/libc/darwin lib/libc/freebsd lib/libc/netbsd lib/libc/openbsd
for folder in lib/libc/include/*; do
  case ${folder##*/} in
    any-linux-any | generic-glibc | aarch64-linux-any | aarch64-linux-gnu | arm-linux-any | \
      arm-linux-gnu | x86-linux-any | x86-linux-gnu) ;;
    *) rm -r "$folder" ;;
  esac
done
