"""onnxruntime and ncnn, as published for 64-bit Arm Linux, in a Debian system that is only unpacked."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np

from benchmarks.arm.counting import Block, count
from benchmarks.arm.failure import ArmError, run
from toolchain.images.debian.unpacking import unpack

PEERS = ("onnxruntime", "ncnn")
_ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_SUITE = "bookworm"
_PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "libgomp1")
# MIDR_EL1: Linux, arch/arm64/include/asm/cputype.h
_PARTS = {"cortex-a72": 0xD08, "cortex-a53": 0xD03, "cortex-a76": 0xD0B}
_ARMV8_2 = " atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"  # of the Cortex-A76, as Linux calls them
_CPUINFO = """processor\t: 0
BogoMIPS\t: 48.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid{more}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: {part:#05x}
CPU revision\t: 2

"""


def unpack_system(folder: Path) -> Path:
    """Unpack Python and the peers for Arm below a folder; nothing of them is run. Return its root."""
    root = folder / "root"
    with (
        unpack(_SUITE, "arm64", _PACKAGES, folder / "mmdebstrap.log") as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        for member in tar:
            if not member.isdev():
                tar.extract(member, root, filter="tar")
    wheels = folder / "wheels"
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 24, 27, 28)]
    options = ("--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--python-version=3.11")
    run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            *platforms,
            "-d",
            wheels,
            "-r",
            _HERE / "peers.txt",
        ]
    )
    for wheel in wheels.iterdir():
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(_site(root))  # noqa: S202 - its hash was checked
    return root


def _site(root: Path) -> Path:
    return root / "usr" / "local" / "peers"


def pretend(root: Path, cpu: str) -> None:
    """Write what a one-core board's kernel would say in /proc and /sys: onnxruntime does not load without."""
    (root / "proc").mkdir(exist_ok=True)
    more = _ARMV8_2 if cpu == "cortex-a76" else ""
    (root / "proc" / "cpuinfo").write_text(_CPUINFO.format(part=_PARTS[cpu], more=more))
    system = root / "sys/devices/system/cpu"
    system.mkdir(parents=True, exist_ok=True)
    for name in ("possible", "present", "online"):
        (system / name).write_text("0\n")


def convert_to_ncnn(onnx: Path, shape: tuple[int, ...], folder: Path) -> Path:
    """Convert by pnnx on this host; return ncnn's file.

    Raises
    ------
    ArmError
        There is no environment with pnnx, or it refuses the network.
    """
    python = _ROOT / ".venv-bench/bin/python"
    if not python.exists():
        raise ArmError(f"no {python}, which has ncnn's converter: run make bench-arm")
    folder.mkdir(exist_ok=True)
    script = _ROOT / "benchmarks/latency/convert.py"
    run([python, script, "ncnn", onnx, folder, "x".join(map(str, shape))])
    return folder / "model.param"


def count_peer(
    plugin: Path,
    peer: str,
    cpu: str,
    root: Path,
    model: Path,
    sample: np.ndarray,
    expected: np.ndarray,
) -> tuple[list[Block], float]:
    """Return what a peer's second inference executes, and its error, relative to the largest output."""
    pretend(root, cpu)
    given, output = root.with_name("input.npy"), root.with_name("output.npy")
    np.save(given, sample)
    python = root / "usr/bin/python3.11"
    argv: list[str | Path] = [python, "-B", "-s", _HERE / "guest.py", peer, model, given, output]
    environment = {
        "PYTHONPATH": f"{_site(root)}:{_ROOT}",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    blocks = count(plugin, "aarch64", cpu, root, argv, **environment)
    found = np.load(output).reshape(expected.shape)
    return blocks, float(np.abs(found - expected).max() / np.abs(expected).max())
