#!/bin/sh
# keep-loops.sh MESA: Mesa unrolls loops of up to 32 turns, and then nobody knows any more how often its code is run. Its two
# places that do it leave loops alone where MALI_KEEP_LOOPS is set.
set -eu
cd "$1/src"
midgard=panfrost/midgard/midgard_compile.c
rusticl=gallium/frontends/rusticl/core/kernel.rs
sed -i 's/NIR_PASS(progress, nir, nir_opt_loop_unroll);/if (!getenv("MALI_KEEP_LOOPS")) &/' $midgard
sed -i 's/if nir_options.max_unroll_iterations != 0 {/if nir_options.max_unroll_iterations != 0 \&\& std::env::var_os("MALI_KEEP_LOOPS").is_none() {/' $rusticl
for file in $midgard $rusticl; do
  grep -q MALI_KEEP_LOOPS $file || { echo "$file has no such place" >&2; exit 1; }
done
