"""The packages and files of an emulated machine: those of a container board, a kernel and systemd.

As there, packages are unpacked and their scripts do not run: `FILES` and `LINKS` replace their results.
"""

from __future__ import annotations

from toolchain.images.debian import system_files as files

SUITE = files.SUITE
PACKAGES = (
    *(*files.PACKAGES, "busybox-static", "dbus", "e2fsprogs", "kmod", "linux-image-arm64"),
    *("systemd", "systemd-sysv"),
)
# The kernel and its modules are read from the packages into the files that QEMU starts; the disk has none.
DROPPED = (
    *(*files.DROPPED, "boot/", "usr/lib/modules/", "etc/fstab", "etc/machine-id", "etc/hostname"),
    *("usr/lib/udev/hwdb.d/", "usr/share/initramfs-tools/"),
)
MODULES = (  # in the order of loading: each stands after those that it needs
    *("virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"),
    *("failover", "net_failover", "virtio_net", "virtio-rng"),
    *("crc32c_generic", "libcrc32c", "crc16", "mbcache", "jbd2", "ext4", "autofs4"),
)
UNITS = "etc/systemd/system"
# What needs hardware, a module or a desktop, or would change the disk at times of its own.
_MASKED = (
    *("systemd-logind.service", "systemd-udevd.service", "systemd-udev-trigger.service"),
    *("systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-modules-load.service"),
    *("modprobe@configfs.service", "modprobe@dm_mod.service", "modprobe@drm.service"),
    *("modprobe@fuse.service", "modprobe@loop.service", "modprobe@efi_pstore.service"),
    *("systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount", "dev-hugepages.mount"),
    *("sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-fs-fuse-connections.mount"),
    *("systemd-hwdb-update.service", "systemd-update-done.service", "systemd-sysusers.service"),
    *("getty.target", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "dpkg-db-backup.timer"),
)
_BUS = "messagebus:x:102:102::/nonexistent:/usr/sbin/nologin\n"
FOLDERS = {**files.FOLDERS, "dev": (0o755, 0), "root": (0o700, 0), "var/tmp": (0o1777, 0)}
LINKS = {
    **files.LINKS,
    f"{UNITS}/default.target": "/lib/systemd/system/multi-user.target",
    f"{UNITS}/multi-user.target.wants/ssh.service": "/lib/systemd/system/ssh.service",
    **{f"{UNITS}/{unit}": "/dev/null" for unit in _MASKED},
}
FILES = {
    **{name: content for name, content in files.FILES.items() if name != "usr/local/sbin/board"},
    "etc/passwd": (0o644, files.FILES["etc/passwd"][1] + _BUS),
    "etc/group": (0o644, files.FILES["etc/group"][1] + "messagebus:x:102:\n"),
    "etc/fstab": (0o644, ""),  # the initial system mounts the disk
    "etc/machine-id": (0o444, ""),  # empty: systemd writes one at the first start
    "etc/systemd/journald.conf.d/memory.conf": (0o644, "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n"),
}
