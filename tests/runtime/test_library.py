"""libedge.so: what it offers and needs, and the two examples of the documentation, as users run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from tests.fuzz.sanitized import compiler
from tests.measuring.small_network import built
from tests.runtime.conftest import Edge
from tests.runtime.test_program import LIBRARIES, LOADERS, version
from toolchain.boards.emulation.qemu import emulator
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.profiles import load_profile
from toolchain.runtime import ensure_runtime
from toolchain.runtime.fingerprint import GLIBC_FLOOR, NATIVE

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_library_exports_its_interface_and_needs_old_glibc_only(edge: Edge) -> None:
    with ensure_runtime(edge.arch).library.open("rb") as file:
        elf = ELFFile(file)
        symbols = list(elf.get_section_by_name(".dynsym").iter_symbols())
        dynamic = list(elf.get_section_by_name(".dynamic").iter_tags())
        versions = elf.get_section_by_name(".gnu.version_r").iter_versions()
        newest = max(version(e.name.removeprefix("GLIBC_")) for _, entries in versions for e in entries)
    offered = {s.name for s in symbols if s["st_shndx"] != "SHN_UNDEF" and s.name}
    assert {"edge_open", "edge_run", "edge_output", "TVMFFIErrorSetRaisedFromCStrParts"} <= offered
    assert all(name.startswith(("edge_", "TVMFFI", "TVMBackend", "EDGE_")) for name in offered)
    undefined = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF"}
    assert {"memcpy", "memset", "logf", "malloc"} <= undefined
    needed = {tag.needed for tag in dynamic if tag.entry.d_tag == "DT_NEEDED"}
    assert needed <= LIBRARIES | {LOADERS[edge.arch]}
    assert [tag.soname for tag in dynamic if tag.entry.d_tag == "DT_SONAME"] == ["libedge.so"]
    assert newest <= version(GLIBC_FLOOR)


class Place:
    """A folder as a user would have it: the exported files, a network's library and an input."""

    def __init__(self, folder: Path, board: str) -> None:
        self.folder = folder
        self.sdk = folder / "sdk"
        command = ["runtime", "export", "--board", board, "-o", self.sdk, "--json"]
        exported = subprocess.run(
            [sys.executable, "-m", "toolchain", *command], capture_output=True, timeout=120, check=True
        )
        assert json.loads(exported.stdout)["library"] == str(self.sdk / "libedge.so")
        assert sorted(path.name for path in self.sdk.iterdir()) == ["README", "edge_rt.h", "libedge.so"]
        self.bundle = built(board, folder)
        (folder / "net.so").write_bytes(self.bundle.library)
        (sample,) = self.bundle.sample.values()
        sample.tofile(folder / "input.bin")
        self.arguments = [str(folder / "net.so"), "x".join(map(str, sample.shape)), str(folder / "input.bin")]

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        environment = {"EDGE_LIBRARY": str(self.sdk / "libedge.so"), "PATH": "/usr/bin:/bin"}
        words = [str(word) for word in command]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def check(self, done: subprocess.CompletedProcess[str]) -> None:
        assert done.returncode == 0, done.stderr
        expected = np.concatenate([value.ravel() for value in self.bundle.expected.values()])
        numbers = [float(line) for line in done.stdout.split()]
        np.testing.assert_allclose(numbers, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("board", ["rk3399", "pynq"])
def test_the_c_example_runs_a_network(board: str, tmp_path: Path) -> None:
    place = Place(tmp_path, board)
    profile = load_profile(board)
    # The same as for the helpers' test: zig makes libraries of its own for each target and cpu.
    cpu = {"rk3399": (), "pynq": ("-mcpu=cortex_a9",)}[board]
    target = ["-target", f"{profile.architecture.zig_target}.{GLIBC_FLOOR}", *cpu]
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{place.sdk}"]
    program = place.sdk / "edge_example"
    link = [f"-L{place.sdk}", "-ledge", "-Wl,-rpath,$ORIGIN", "-o", str(program)]
    source = str(EXAMPLES / "edge_example.c")
    compiled = run_zig(["cc", *target, *flags, source, *link], 120, zig_cache_environment())
    assert compiled.returncode == 0, compiled.output
    start = (*emulator(profile), program)
    place.check(place.run(*start, *place.arguments))
    library, shape, data = place.arguments
    for arguments, code, words in (
        ([], 2, "usage: edge_example"),
        ([place.sdk / "README", shape, data], 1, "not a shared library"),
        ([library, "1x3x8x8", data], 1, "param="),
        ([library, shape, place.sdk / "none"], 1, "none"),
    ):
        done = place.run(*start, *arguments)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr


# libedge.so, network, then for each call the size it says and the last number of what it hands over.
OPENING = """
import ctypes, struct, sys
edge = ctypes.CDLL(sys.argv[1])
edge.edge_open.restype = ctypes.c_void_p
edge.edge_last_error.restype = ctypes.c_char_p
edge.edge_threads.argtypes = [ctypes.c_void_p]
for size, last in zip(sys.argv[3::2], sys.argv[4::2]):
    options = struct.pack("@NPPii28xi", int(size), 0, 0, 1, 0, int(last))
    network = edge.edge_open(sys.argv[2].encode(), options)
    print(edge.edge_threads(network) if network else edge.edge_last_error().decode())
"""


def test_programs_of_other_header_versions(tmp_path: Path) -> None:
    place = Place(tmp_path, "local")
    no_sizes = (0, 24, 36, 99999)
    versions = (32, 40, 48, 56)
    sizes = [(size, 0) for size in (*versions, 64)] + [(64, 7)]
    sizes += [(size, 7) for size in versions] + [(size, 0) for size in no_sizes]
    words = [word for call in sizes for word in call]
    library = str(place.sdk / "libedge.so")
    done = place.run(sys.executable, "-c", OPENING, library, tmp_path / "net.so", *words)
    assert done.returncode == 0, done.stderr
    first, second, third, known, newer, unknown, *beyond, zero, short, between, huge = (
        done.stdout.splitlines()
    )
    assert {first, second, third, known, newer, *beyond} == {"1"}, (
        "what is not set, or not the caller's, is nothing"
    )
    assert "does not know" in unknown and "older than the program's edge_rt.h" in unknown
    for size, message in zip(no_sizes, (zero, short, between, huge), strict=True):
        assert message == f"edge_options.size is {size}: set it to sizeof(edge_options)"


CHOOSING = """
import ctypes, struct, sys
edge = ctypes.CDLL(sys.argv[1])
edge.edge_open.restype = ctypes.c_void_p
edge.edge_last_error.restype = edge.edge_last_error_kind.restype = ctypes.c_char_p
for name in sys.argv[3:]:
    device = ctypes.create_string_buffer(name.encode())
    options = struct.pack("@NPPiiP", 40, 0, 0, 1, 0, ctypes.addressof(device))
    network = edge.edge_open(sys.argv[2].encode(), options)
    words = (edge.edge_last_error_kind() + b": " + edge.edge_last_error()).decode()
    print("opened" if network else words)
"""


def test_a_program_chooses_the_device(tmp_path: Path) -> None:
    place = Place(tmp_path, "local")
    names = ("", "cpu", "cpu:0", "cpu:1", "npu", "cpu:one")
    done = place.run(sys.executable, "-c", CHOOSING, place.sdk / "libedge.so", tmp_path / "net.so", *names)
    assert done.returncode == 0, done.stderr
    *opened, beyond, unknown, wrong = done.stdout.splitlines()
    assert opened == ["opened"] * 3
    here = "here are: cpu, vta:sim"
    assert beyond == f"device: there is no device cpu:1 here: the last of that kind is cpu:0; {here}"
    assert unknown.startswith("device: there is no device npu here") and unknown.endswith(here)
    assert wrong.startswith("usage: ") and "cpu:one" in wrong


def test_concurrent_threads_open_libraries(tmp_path: Path) -> None:
    library = ensure_runtime("x86_64").library
    assert library
    program, source = tmp_path / "opening", Path(__file__).with_name("opening_threads.c")
    words = [
        "-x",
        "c",
        "-std=c11",
        f"-I{NATIVE}",
        source,
        "-x",
        "none",
        library,
        f"-Wl,-rpath,{library.parent}",
    ]
    subprocess.run([compiler(), *words, "-lpthread", "-o", program], check=True, timeout=60)
    assert subprocess.run([program, library], timeout=120, check=False).returncode == 0


def test_the_python_example_runs_a_network(tmp_path: Path) -> None:
    place = Place(tmp_path, "local")
    start = (sys.executable, EXAMPLES / "edge_example.py")
    place.check(place.run(*start, *place.arguments))
    done = place.run(*start, place.sdk / "none.so", *place.arguments[1:])
    assert done.returncode == 1 and "edge_example: cannot open" in done.stderr
