#!/bin/sh
# QEMU's system mode and its storage daemon for the tests with whole machines and disks, unpacked below .venv/machine
# and not installed: what they need is large, and few tests need it. Installed programs are used if they are there.
set -eu
cd "$(dirname "$0")/.."

programs="qemu-system-aarch64 qemu-img qemu-storage-daemon"
there() { # whether all programs are in this PATH
    for program in $programs; do PATH=$1 command -v "$program" >/dev/null || return 1; done
}
there "$PATH" && exit 0
there "$PWD/.venv/machine/bin" && exit 0
if ! command -v apt-get >/dev/null; then
    echo "machine: not a Debian or Ubuntu system; some tests need $programs in PATH" >&2
    exit 1
fi
exec 9<tools/machine.sh
flock 9 # another test may be at it
there "$PWD/.venv/machine/bin" && exit 0
if [ ! -x .venv/machine/usr/bin/qemu-storage-daemon ]; then
    packages=$(tools/needed.sh qemu-system-arm qemu-utils)
    echo "machine: unpacking QEMU into .venv/machine" >&2
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    # shellcheck disable=SC2086  # one word per package
    (cd "$folder" && apt-get download -qq $packages) >&2
    for package in "$folder"/*.deb; do
        dpkg-deb --extract "$package" "$folder/root"
    done
    rm -rf .venv/machine
    mkdir "$folder/root/bin"
    mv "$folder/root" .venv/machine
fi
here=$PWD/.venv/machine
libraries=$(dirname "$(find "$here/usr/lib" -name 'libslirp.so.*' | head -n 1)")
for program in $programs; do
    data=
    [ "$program" != qemu-system-aarch64 ] || data="-L $here/usr/share/qemu"
    cat >".venv/machine/bin/$program.new" <<END
#!/bin/sh
export LD_LIBRARY_PATH="$libraries:$here/lib/${libraries##*/}\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export QEMU_MODULE_DIR="$libraries/qemu"
exec "$here/usr/bin/$program" $data "\$@"
END
    chmod +x ".venv/machine/bin/$program.new"
    mv ".venv/machine/bin/$program.new" ".venv/machine/bin/$program" # whole, also for those who start it meanwhile
done
