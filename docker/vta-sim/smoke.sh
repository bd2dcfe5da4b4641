#!/bin/sh
# The tutorial's ten convolutions are found, and one of them is compiled and simulated, bit for bit.
set -eu
here=$(dirname "$0")
. "$here/../smoke/quiet.sh"

found() {
    toolchain vta tasks zoo:resnet-18 | tr -s ' ' | sed 's/ $//' >found
    diff "$here/smoke-tasks.txt" found
}
quiet "a Pynq is the board that is meant" says pynq printenv TOOLCHAIN_BOARD
quiet "ResNet-18 has the tutorial's ten convolutions" found
quiet "one of them is compiled for a VTA" toolchain vta compile --conv 1,14,14,256,512,1,1,0,0,2,2 --dump conv
quiet "its program keeps the rules of all machines" toolchain vta lint conv
quiet "the strict machine in software computes numpy's integers" toolchain vta simulate conv --strict
