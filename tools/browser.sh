#!/bin/sh
# A headless Chromium for the tests of `toolchain ui` and of the site, with the libraries that are missing here and
# one family of fonts, unpacked below .venv and not installed: 100 MB are fetched.
set -eu
cd "$(dirname "$0")"

command -v chromium-headless-shell >/dev/null && exit 0
[ -x ../.venv/chromium-headless-shell/usr/bin/chromium-headless-shell ] && exit 0
if ! command -v apt-get >/dev/null; then
    echo "tests: not a Debian or Ubuntu system; some tests need chromium-headless-shell in PATH" >&2
    exit 0
fi
packages=$(./needed.sh chromium-headless-shell | grep -Ev '^(xdg-utils|fonts-)' || true)
if [ -z "$packages" ]; then
    echo "tests: apt knows no chromium-headless-shell; some tests need it" >&2
    exit 0
fi
# shellcheck disable=SC2086  # one word per package
./unpack.sh chromium-headless-shell $packages fonts-dejavu-core
