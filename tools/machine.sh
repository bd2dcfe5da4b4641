#!/bin/sh
# QEMU's system mode for the tests with whole machines, unpacked below .venv/machine and not installed:
# what it needs is large, and few tests need it. Installed programs are used if they are there.
set -eu
cd "$(dirname "$0")/.."

command -v qemu-system-aarch64 >/dev/null && command -v qemu-img >/dev/null && exit 0
[ -x .venv/machine/bin/qemu-system-aarch64 ] && exit 0
if ! command -v apt-get >/dev/null; then
    echo "machine: not a Debian or Ubuntu system; some tests need qemu-system-aarch64 and qemu-img in PATH" >&2
    exit 1
fi
needed() { # packages that are not installed
    apt-get install --simulate --no-install-recommends qemu-system-arm qemu-utils | sed -n 's/^Inst \([^ ]*\) .*/\1/p'
}
packages=$(needed 2>/dev/null) || {
    if [ "$(id -u)" = 0 ]; then apt-get update -qq; else sudo -n apt-get update -qq; fi >&2
    packages=$(needed)
}
echo "machine: unpacking QEMU into .venv/machine" >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# shellcheck disable=SC2086  # one word per package
(cd "$folder" && apt-get download -qq $packages) >&2
for package in "$folder"/*.deb; do
    dpkg-deb --extract "$package" "$folder/root"
done
rm -rf .venv/machine
mv "$folder/root" .venv/machine
mkdir .venv/machine/bin
here=$PWD/.venv/machine
libraries=$(dirname "$(find "$here/usr/lib" -name 'libslirp.so.*' | head -n 1)")
for program in qemu-system-aarch64 qemu-img; do
    data=
    [ $program = qemu-img ] || data="-L $here/usr/share/qemu"
    cat >".venv/machine/bin/$program" <<END
#!/bin/sh
export LD_LIBRARY_PATH="$libraries:$here/lib/${libraries##*/}\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export QEMU_MODULE_DIR="$libraries/qemu"
exec "$here/usr/bin/$program" $data "\$@"
END
    chmod +x ".venv/machine/bin/$program"
done
