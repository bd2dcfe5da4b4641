#!/bin/sh
# cross.sh PREFIX EMULATOR CLASS: what a cross-compiler's image compiles for its boards runs under the emulator.
set -eu
prefix=$1 emulator=$2 class=$3
smoke=$(dirname "$0")
. "$smoke/quiet.sh"

quiet "cmake finds $prefix-g++" cmake -S "$smoke" -B program -G Ninja \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="${prefix%%-*}" -DCMAKE_CXX_COMPILER="$prefix-g++"
quiet "ninja compiles a C++ program" cmake --build program
quiet "$emulator runs it" says 5050 "$emulator" -L "/usr/$prefix" program/program

quiet "a network is written" python "$smoke/network.py" tiny.onnx
quiet "an emulated $class" toolchain board emulate start "$class" --kind process --name smoke
for linker in zig gcc; do
    quiet "its library, linked by $linker, passes the ELF gate" \
        toolchain build tiny.onnx --board "$class" --engine host --linker $linker -o $linker
    quiet "its results are onnxruntime's" toolchain verify $linker/tiny-"$class".bundle --board smoke
done
quiet "the board is stopped" toolchain board emulate stop smoke
