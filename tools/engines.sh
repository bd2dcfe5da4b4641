#!/bin/sh
# Engines of other fleets, by which the longest tests install releases: RAUC and SWUpdate, unpacked below .venv, and Ansible in an environment of
# its own there, on top of .venv's packages.
set -eu
cd "$(dirname "$0")"

if command -v apt-get >/dev/null; then
    # shellcheck disable=SC2046  # one word per package
    ./unpack.sh rauc $(./needed.sh rauc squashfs-tools dbus)
    # shellcheck disable=SC2046
    ./unpack.sh swupdate $(./needed.sh swupdate cpio)
else
    echo "tests: not a Debian or Ubuntu system; some tests need rauc and swupdate in PATH" >&2
fi

./environment.sh --on-top tests/howto/ansible.lock .venv/ansible
