"""The initial system of an emulated machine: loads its drivers, mounts its disk and starts systemd.

Debian's kernel has drivers as modules. A second disk, if there is one, is a tar: it is unpacked onto the
first. So a machine's files are written without a root account on the host.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

UNPACK = "edge.unpack"  # on the kernel's command line: power off once the second disk is unpacked
UNPACKED = "edge: unpacked"  # what it then writes to the console

_FOLDER, _PROGRAM, _FILE, _DEVICE = 0o040755, 0o100755, 0o100644, 0o020600
INIT = f"""#!/bin/busybox sh
b=/bin/busybox
fail() {{ echo "edge: $1"; $b sync; $b poweroff -f; }}
$b mount -t proc proc /proc && $b mount -t sysfs sysfs /sys && $b mount -t devtmpfs dev /dev || fail "no /dev"
while read -r module; do $b insmod "/modules/$module.ko" || fail "cannot load $module"; done </modules/order
$b mount -t ext4 /dev/vda /root || fail "cannot mount the disk"
if [ -b /dev/vdb ]; then
    $b tar -x -f /dev/vdb -C /root || fail "cannot unpack the second disk"
    $b sync
fi
if $b grep -q {UNPACK} /proc/cmdline; then
    $b umount /root || fail "cannot unmount the disk"
    fail "unpacked"
fi
$b ip link set lo up
$b ip addr add 10.0.2.15/24 dev eth0 && $b ip link set eth0 up || fail "no network"
$b mount -o move /dev /root/dev && $b umount /sys && $b umount /proc || fail "cannot leave the initial system"
exec $b switch_root /root /sbin/init
"""


def write_initrd(target: Path, busybox: bytes, modules: Mapping[str, bytes]) -> None:
    """Write the initial system as a compressed cpio archive.

    Parameters
    ----------
    busybox
        The program, linked statically.
    modules
        Content of each kernel module by its name, in the order of loading.
    """
    entries: list[tuple[str, int, bytes]] = [
        (name, _FOLDER, b"") for name in ("bin", "dev", "modules", "proc", "root", "sys")
    ]
    entries += [("bin/busybox", _PROGRAM, busybox), ("init", _PROGRAM, INIT.encode())]
    entries += [(f"modules/{name}.ko", _FILE, content) for name, content in modules.items()]
    entries += [("modules/order", _FILE, "".join(f"{name}\n" for name in modules).encode())]
    entries += [("dev/console", _DEVICE, b""), ("TRAILER!!!", 0, b"")]
    archive = b"".join(_entry(number, *entry) for number, entry in enumerate(entries, 1))
    target.write_bytes(gzip.compress(archive, 6, mtime=0))


def _entry(number: int, name: str, mode: int, content: bytes) -> bytes:
    """Return an entry in cpio's "newc" format (cpio(5)): hexadecimal fields, parts aligned to 4 bytes."""
    major, minor = (5, 1) if mode == _DEVICE else (0, 0)  # the console
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return _aligned(head) + _aligned(content)


def _aligned(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)
