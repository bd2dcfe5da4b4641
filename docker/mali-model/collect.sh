#!/bin/sh
# collect.sh MESA BUILD ADDED: puts into ADDED what of BUILD runs in the image, our program that uses it, and what both need.
set -eu
mesa=$1
build=$2
added=$3/opt/mali-model
llvm=/usr/lib/llvm-15
mkdir -p "$added/lib"
cp "$build/src/gallium/targets/rusticl/libRusticlOpenCL.so.1.0.0" "$added/lib/libRusticlOpenCL.so.1"
cp "$build/src/panfrost/drm-shim/libpanfrost_noop_drm_shim.so" "$added/lib/"
gcc -O1 -Wall -Wextra -I "$mesa/include" /compiler.c -o "$added/compiler" -ldl
# Libraries that the base has not, and the headers that clang looks for beside the library that it is in.
ldd "$added"/lib/*.so* | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | while read -r library; do
  case ${library##*/} in
    libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so*) ;;
    *) cp -nL "$library" "$added/lib/" ;;
  esac
done
strip --strip-unneeded "$added"/lib/*.so* "$added/compiler"
version=$(basename $llvm/lib/clang/15.*)
mkdir -p "$added/lib/clang/$version/include"
cp $llvm/lib/clang/"$version"/include/opencl-c*.h "$added/lib/clang/$version/include/"
mkdir -p "$3/usr/lib/clc"
cp /usr/lib/clc/spirv*-mesa3d-.spv "$3/usr/lib/clc/"
