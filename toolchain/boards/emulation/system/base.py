"""Makes the files that all emulated machines share, from Debian's packages; once, and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from toolchain.boards.emulation.system import initrd, packages
from toolchain.boards.emulation.system.machine import CONSOLE, Base, disk_file, failure_reason, program, spawn
from toolchain.configuration.settings import cache_dir
from toolchain.errors import ToolchainError
from toolchain.files import atomic
from toolchain.files.turns import one_at_a_time
from toolchain.images.debian.bootstrap import write_system
from toolchain.images.debian.unpacking import unpack
from toolchain.images.registry.archive import CHANGED
from toolchain.profiles import Profile

FOLDER = "machines"  # in the cache
DISK = "4G"  # the disk's size as the machine sees it; the file holds what is written
_BYTES_PER_INODE = 65536
_LOCK_SECONDS = 1800.0
_UNPACK_SECONDS = 900.0  # measured: 60 s on two busy cores
_SECONDS = 300.0


def cached_name(debian: str = "arm64") -> str:
    """Return the folder's name in the cache: it has a digest of all but the packages' versions."""
    recipe = {name: value for name, value in vars(packages).items() if name.isupper()}
    text = json.dumps([recipe, initrd.INIT, CHANGED, DISK, _BYTES_PER_INODE], sort_keys=True, default=list)
    return f"{debian}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def ensure_base(profile: Profile, progress: Callable[[str], None]) -> Base:
    """Return the shared files for machines of a class; they are made unless they are in the cache.

    Raises
    ------
    MissingError
        QEMU, mke2fs or mmdebstrap is not installed, or no mirror is known.
    ToolchainError
        The packages cannot be fetched, or the new machine does not unpack them.
    """
    folder = cache_dir() / FOLDER / cached_name(profile.architecture.debian)
    base = Base.of(folder)
    for name in ("qemu-img", "mke2fs"):
        program(name)
    with one_at_a_time(Path(f"{folder}.lock"), _LOCK_SECONDS, f"making {folder}"):
        if not folder.exists():
            with atomic.replacing_folder(folder) as temporary:
                _make(temporary, profile, progress)
    return base


def qemu_img(*arguments: str) -> None:
    """Run qemu-img.

    Raises
    ------
    MissingError, ToolchainError
        It is not installed, or failed.
    """
    _run([program("qemu-img"), *arguments])


def _make(folder: Path, profile: Profile, progress: Callable[[str], None]) -> None:
    base = Base.of(folder)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".machine.") as temporary:
        scratch = Path(temporary)
        system, disk = scratch / "system.tar", scratch / "disk.raw"
        progress(f"unpacking Debian {packages.SUITE} with a kernel, once (a minute or two)")
        _fetch(scratch / "packages.tar", profile.architecture.debian, scratch / "log")
        _split(scratch / "packages.tar", system, base)
        # Whatever ext4 would do later by itself is done now.
        options = ("-q", "-t", "ext4", "-i", str(_BYTES_PER_INODE), "-L", "board")
        lazy = "lazy_itable_init=0,lazy_journal_init=0"
        _run([program("mke2fs"), *options, "-E", lazy, str(disk), DISK])
        progress("making the disk of emulated machines, once (a minute or two)")
        _write_disk(scratch, base, profile, disk, system)
        qemu_img("convert", "-f", "raw", "-O", "qcow2", str(disk), str(base.disk))
    base.disk.chmod(0o444)


def _fetch(target: Path, debian: str, log: Path) -> None:
    with unpack(packages.SUITE, debian, packages.PACKAGES, log) as stream, target.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)


def _split(source: Path, system: Path, base: Base) -> None:
    """Write kernel, initial system, and the tar for the disk, from the tar of all packages."""
    modules: dict[str, bytes] = {}
    busybox = b""
    with tarfile.open(source) as archive:
        for entry in archive:
            path = PurePosixPath(entry.name)
            if path.name.startswith("vmlinuz-"):
                base.kernel.write_bytes(_content(archive, entry))
            elif path.suffix == ".ko" and path.stem in packages.MODULES:
                modules[path.stem] = _content(archive, entry)
            elif entry.name.endswith("/bin/busybox"):
                busybox = _content(archive, entry)
    missing = [name for name in packages.MODULES if name not in modules]
    if missing or not busybox or not base.kernel.exists():
        raise ToolchainError(
            f"Debian's packages lack parts of a machine: {', '.join(missing) or 'no kernel'}"
        )
    initrd.write_initrd(base.initrd, busybox, {name: modules[name] for name in packages.MODULES})
    with source.open("rb") as stream, tarfile.open(system, "w", format=tarfile.GNU_FORMAT) as target:
        write_system(stream, target, packages.DROPPED, packages.FOLDERS, packages.LINKS, packages.FILES)


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return file.read() if file else b""


def _write_disk(scratch: Path, base: Base, profile: Profile, disk: Path, system: Path) -> None:
    """Start a machine that unpacks the tar onto its disk and powers off."""
    disks = [*disk_file(disk, "disk", kind="raw"), *disk_file(system, "system", kind="raw")]
    machine = spawn(scratch, base, profile, disks, words=initrd.UNPACK)
    try:
        machine.wait(_UNPACK_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(
            f"a machine did not unpack its system within {_UNPACK_SECONDS:g} s{failure_reason(scratch)}"
        ) from error
    finally:
        machine.kill()
        machine.wait()
    if initrd.UNPACKED not in (scratch / CONSOLE).read_text(errors="replace"):
        raise ToolchainError(f"a machine could not unpack its system{failure_reason(scratch)}")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"{command[0]} did not end within {_SECONDS:g} s") from error
    if done.returncode != 0:
        wrote = done.stderr.decode(errors="replace").strip()
        raise ToolchainError(f"{command[0]} failed: {wrote}")
