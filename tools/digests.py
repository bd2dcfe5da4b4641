"""Digests of the code that builds give, to see what a change of the generators changed.

    python tools/digests.py -o before.json                every network, for every target
    python tools/digests.py --networks zoo:mobilenet,torch_words --targets pynq -o some.json
    python tools/digests.py --compare before.json after.json

Networks are built by `toolchain build` without records, from an empty cache. A digest is of one object file:
its sections and relocations. The names that objects have by their content count as one name, so that a
function is the same when only what it was made from is written down differently.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import onnx
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.families.table import FAMILIES  # noqa: E402

EXPORTED = ROOT / "tests/data/exporters"
ZOO = (
    *("inception_v3", "mobilenet", "resnet-18", "resnet-34", "resnet-50", "resnet-101", "resnet-152"),
    *("resnet3d-18", "squeezenet_v1.1", "vgg-11", "vgg-13", "vgg-16", "vgg-19"),
)
FILES = {
    "keras_steps": ("--shape", "keras_tensor_11=1,12,6"),
    "paddle_pictures": ("--shape", "x=1,3,16,24"),
    "torch_half": (),
    "torch_stream": (),
    "torch_words": ("--shape", "ids=1,9"),
}
DRAWN = (
    *("bert-small", "deeplab", "densenet-121", "diffusion-unet", "ds-cnn", "gru", "lstm", "regnety-400mf"),
    *("shufflenet-v2", "unet", "wavenet"),
)
"""Of benchmarks/families: written to a folder first."""

NETWORKS = {
    **{f"zoo:{name}": (f"zoo:{name}",) for name in ZOO},
    **{name: (str(EXPORTED / f"{name}.onnx"), *typed) for name, typed in FILES.items()},
    **{name: (f"{name}.onnx",) for name in DRAWN},
    "mobilenet NHWC": ("zoo:mobilenet", "--layout", "NHWC"),
    "resnet-18 NCHW": ("zoo:resnet-18", "--layout", "NCHW"),
    "resnet-18 direct": ("zoo:resnet-18", "--winograd", "off"),
}
"""What is built, by name: a model and its options, as typed."""

TARGETS = ("rk3399", "pynq", "avx2", "avx512")
CLASS = """description = "x86-64 PC"
triple = "x86_64-unknown-linux-gnu"
glibc = "2.27"
memory_mib = 4096

[[clusters]]
cpu = "{cpu}"
cores = 2
"""
CPUS = {"avx2": "x86-64-v3", "avx512": "x86-64-v4"}
CONTENT_NAME = re.compile(rb"kernel_[0-9a-f]{32}")
BUILD_S = 3600


def main() -> int:
    """Print digests, or compare two files of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", default=",".join(NETWORKS), help="between commas (default: all)")
    parser.add_argument("--targets", default=",".join(TARGETS), help="between commas (default: all)")
    parser.add_argument("--toolchain", default=str(Path(sys.executable).parent / "toolchain"))
    parser.add_argument("--jobs", type=int, default=2, help="builds at a time (default 2)")
    parser.add_argument("-o", "--output", type=Path, help="write them here too")
    parser.add_argument("--compare", nargs=2, type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.compare:
        return compare(*(json.loads(file.read_text()) for file in options.compare))
    wanted = [
        (network, target) for network in options.networks.split(",") for target in options.targets.split(",")
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for target, cpu in CPUS.items():
            (folder / "boards" / target).mkdir(parents=True)
            (folder / "boards" / target / "board.toml").write_text(CLASS.format(cpu=cpu))
        (folder / "toolchain.toml").write_text("")
        for network in {network for network, _target in wanted} & set(DRAWN):
            onnx.save(FAMILIES[network].model(), str(folder / f"{network}.onnx"))
        found: dict[str, dict[str, str]] = {}
        with ThreadPoolExecutor(options.jobs) as pool:
            pairs = pool.map(lambda pair: built(options.toolchain, pair[0], pair[1], folder), wanted)
            for (network, target), digests in zip(wanted, pairs, strict=True):
                found[f"{network} {target}"] = digests
                whole = hashlib.sha256(json.dumps(digests).encode()).hexdigest()[:16]
                print(f"{whole}  {target:8} {network} ({len(digests)} objects)", flush=True)
                if options.output:
                    options.output.write_text(json.dumps(found, indent=1))
    return 0


def built(toolchain: str, network: str, target: str, folder: Path) -> dict[str, str]:
    """Build a network and return the digest of each of its objects."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        homes = {f"TOOLCHAIN_{kind}_DIR": f"{name}/{kind}" for kind in ("CACHE", "DATA", "STATE")}
        command = [toolchain, "build", *NETWORKS[network], "--board", target, "--engine", "host"]
        subprocess.run(
            [*command, "--format", "tar", "-o", f"{name}/out", "--json"],
            cwd=folder,
            env={**os.environ, "TOOLCHAIN_JOBS": "1", **homes},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=BUILD_S,
            check=False,
        ).check_returncode()
        (path,) = Path(name, "out").glob("*.tar")
        with tarfile.open(path) as tar:
            members = [(member.name, tar.extractfile(member)) for member in tar.getmembers()]
            return {name: digest(file.read()) for name, file in members if file is not None}


def digest(data: bytes) -> str:
    """Return the digest of an object file."""
    result = hashlib.sha256()
    for part in parts(ELFFile(BytesIO(data))):
        result.update(part)
    return result.hexdigest()[:16]


def parts(elf: ELFFile) -> Iterator[bytes]:
    """Yield what a linker would use of an object file, symbols by name."""
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection):
            symbols = elf.get_section(section["sh_link"])
            for relocation in section.iter_relocations():
                symbol = symbols.get_symbol(relocation["r_info_sym"])
                name = nameless(symbol.name.encode()).decode()
                addend = relocation["r_addend"] if relocation.is_RELA() else 0
                where = relocation["r_offset"], relocation["r_info_type"], addend, symbol["st_value"]
                yield f"{section.name} {name} {where}\n".encode()
        elif section["sh_flags"] & 2 and section["sh_type"] != "SHT_NOBITS":  # SHF_ALLOC
            yield nameless(f"{section.name} {section['sh_size']}\n".encode())
            yield nameless(section.data())  # checks of arguments name their function


def nameless(data: bytes) -> bytes:
    """Return bytes in which all names that objects have by their content are one."""
    return CONTENT_NAME.sub(b"kernel", data)


def compare(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> int:
    """Print what differs between two runs; return 1 where something does."""
    both = sorted(before.keys() & after.keys())
    differing = 0
    for built in both:
        one, other = before[built], after[built]
        names = [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]
        if names:
            print(f"{built}: {len(names)} of {len(one)} objects differ: {', '.join(names[:8])}")
            differing += 1
    same = len(both) - differing
    print(f"{same} of {len(both)} builds are the same; there were {len(before)}, there are {len(after)}")
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(main())
