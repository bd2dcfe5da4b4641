#!/bin/sh
# Kernels are compiled by nvcc, by NVRTC and through TVM; that takes no GPU.
set -eu
here=$(dirname "$0")
. "$here/../smoke/quiet.sh"
# elf|text FILE: what a cubin is, what PTX is.
elf() { [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }
text() { grep -q "^\.target $2" "$1"; }

quiet "g++ compiles a C++ program" g++ -O2 -o program "$here/../smoke/program.cc"
quiet "it runs" says 5050 ./program
quiet "nvcc compiles to PTX" nvcc --ptx -arch=sm_87 -o nvcc.ptx "$here/smoke.cu"
quiet "it is PTX for sm_87" text nvcc.ptx sm_87
quiet "nvcc compiles to a cubin" nvcc --cubin -arch=sm_87 -o nvcc.cubin "$here/smoke.cu"
quiet "it is an ELF file" elf nvcc.cubin
quiet "TVM makes CUDA C++ of a network, NVRTC and nvcc compile it" python "$here/smoke.py" sm_87
for compiler in nvrtc nvcc; do
    quiet "PTX from $compiler" text "tvm-$compiler.ptx" sm_87
    quiet "a cubin from $compiler" elf "tvm-$compiler.cubin"
done
quiet "the toolchain compiles a kernel, with the headers that lie here" python -c '
from toolchain.lowering.dialects.nvrtc import compile_cuda
compile_cuda("#include <cuda_fp16.h>\nextern \"C\" __global__ void f(half* x) { x[0] = x[1]; }", 90)'
