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

cd ..
wanted=$(sha256sum <tests/howto/ansible.lock)
[ "$(cat .venv/ansible/stamp 2>/dev/null)" = "$wanted" ] && exit 0
echo "tests: installing Ansible into .venv/ansible" >&2
.venv/bin/python -m venv --clear --without-pip .venv/ansible
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$(.venv/ansible/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth"
.venv/bin/python -m pip --python .venv/ansible/bin/python install --quiet --disable-pip-version-check --no-input \
    --no-deps --require-hashes --requirement tests/howto/ansible.lock
echo "$wanted" >.venv/ansible/stamp
