#!/bin/sh
# Mesa's compiler for the Mali-T860: see compiler.c. Its driver finds a GPU that is none, and never runs anything on it.
set -eu
home=/opt/mali-model
export LD_LIBRARY_PATH=$home/lib PAN_GPU_ID=860
export RUSTICL_ENABLE=panfrost RUSTICL_FEATURES=fp16 RUSTICL_DEBUG=no_variants
export MESA_SHADER_CACHE_DISABLE=true MIDGARD_MESA_DEBUG=shaderdb,shaders MALI_KEEP_LOOPS=1
export LD_PRELOAD=$home/lib/libpanfrost_noop_drm_shim.so
exec $home/compiler $home/lib/libRusticlOpenCL.so.1 "$(cat $home/version)"
