#!/bin/sh
# A kernel is compiled and counted, one that is none is refused, and the next one does not notice.
set -eu
here=$(dirname "$0")
. "$here/../smoke/quiet.sh"

twice='__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void twice(__global float4 *x) { x[get_global_id(0)] *= 2.0f; }'
request() { printf '%s 60\n%s' "${#1}" "$1"; }
{ request "$twice"; request "no kernel"; request "$twice"; } | mali-compiler >answers

version() { grep -aqx "mali-model $(cat /opt/mali-model/version)" answers; }
words() { [ "$(grep -acE "^$1 [0-9]+\$" answers)" = "$2" ]; }
counts() { [ "$(grep -acE 'SHADER-DB: .* 2 registers, 4 threads, 0 loops, 0:0 spills:fills' answers)" = 2 ]; }
quiet "it says its version" version
quiet "it compiles a kernel for the Mali-T860, twice" words ok 2
quiet "what is no kernel is refused" words refused 1
quiet "registers and spills are counted" counts
