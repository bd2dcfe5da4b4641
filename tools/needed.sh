#!/bin/sh
# Packages and all that they need, as far as it is not installed: a name in each line. Reads apt's lists anew where it does not know them.
#   needed.sh PACKAGE...
set -eu

simulated() { apt-get install --simulate --no-install-recommends "$@"; }
plan=$(simulated "$@" 2>/dev/null) || {
    if [ "$(id -u)" = 0 ]; then apt-get update -qq; else sudo -n apt-get update -qq; fi >&2
    plan=$(simulated "$@")
}
printf '%s\n' "$plan" | sed -n 's/^Inst \([^ ]*\) .*/\1/p'
