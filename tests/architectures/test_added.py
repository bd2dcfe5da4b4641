"""An architecture that the package does not know: RISC-V, added as docs/howto/add-an-architecture.md says."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from pathlib import Path
from shutil import copytree

import pytest

from tests import plugins
from tests.cli.running import Toolchain
from tests.riscv64.machine import RVV
from tests.riscv64.row import RISCV64
from tests.toy_network import write_project
from toolchain.architectures import table
from toolchain.architectures.architecture import SEAMS, Architecture, Level
from toolchain.architectures.least_time import least_ms
from toolchain.architectures.rates import float_products
from toolchain.architectures.table import (
    ARCHITECTURES,
    PLUGINS,
    CodeColumn,
    architecture_names,
    architecture_of,
    linux_rows,
    of_debian,
    of_machine,
)
from toolchain.backends.packed.machines import MACHINES, machine_of
from toolchain.boards.emulation.qemu import check_host, emulator
from toolchain.bundles.read import read_bundle
from toolchain.doctor import diagnosis as doctor
from toolchain.errors import MissingError, UsageError
from toolchain.lowering.kernels.store import fingerprint
from toolchain.profiles import Profile, load_profile, read_profile
from toolchain.records.record import level_rank
from toolchain.runtime import arch_of
from toolchain.runtime.fingerprint import NATIVE
from toolchain.targets.target import target_for

FOLDER = plugins.ROOT / "tests" / "riscv64"
CLASS = FOLDER / "bananapi-f3" / "board.toml"
NEEDED = [
    column.name
    for column in fields(Architecture)
    if column.default is MISSING and column.default_factory is MISSING
]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    plugins.forget()
    sys.modules.pop("edge_riscv64", None)


def install(folder: Path, patch: pytest.MonkeyPatch, row: str = "tests.riscv64.row:RISCV64") -> None:
    plugins.install(folder, patch, group=PLUGINS.group, riscv64=row)


def write(folder: Path, patch: pytest.MonkeyPatch, change: str) -> None:
    """Install a plugin whose row is a changed one."""
    install(folder, patch, "edge_riscv64:ROW")
    (folder / "edge_riscv64.py").write_text(
        "from dataclasses import fields, replace\n"
        "from toolchain.architectures.architecture import Architecture\n"
        "from tests.riscv64.row import RISCV64\n"
        f"columns = {{each.name: getattr(RISCV64, each.name) for each in fields(RISCV64)}}\n{change}\n"
        "ROW = Architecture(**columns)\n"
    )


@pytest.fixture
def bananapi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    install(tmp_path / "site", monkeypatch)
    return read_profile(CLASS)


def test_rows_of_packages_are_found_like_ours(bananapi: Profile) -> None:
    assert architecture_names() == (*ARCHITECTURES, "riscv64")
    assert bananapi.architecture is RISCV64 is of_machine("riscv64") is of_debian("riscv64")
    assert [*linux_rows()] == [*table.LINUX.values(), RISCV64]
    assert architecture_of("riscv64-unknown-linux-android") is None
    assert float_products() == {"sse", "avx2", "avx512", "neon", "rvv"}
    assert level_rank("rv64gc", "rv64gcv") is not None and level_rank("rv64gcv", "rv64gc") is None
    slow = least_ms(1e9, triple="armv7a-unknown-linux-gnueabihf", cpu="x", level="neon")
    assert least_ms(1e9, triple=RISCV64.triple, cpu="spacemit-x60", level="rv64gcv") > slow
    assert emulator(bananapi)[2:] == ("spacemit-x60", "-L", "/usr/riscv64-linux-gnu")
    with pytest.raises(UsageError, match="edge-rt does not run on riscv64"):
        arch_of(bananapi)


def test_its_emulator_is_the_one_of_the_row_and_has_no_keys(
    bananapi: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingError, match="no 'qemu-riscv64-static' on this machine") as raised:
        check_host(bananapi)
    assert raised.value.hint == "apt-get install qemu-user-static"
    aarch64 = load_profile("rk3399")
    with pytest.raises(MissingError) as raised:
        check_host(aarch64)
    assert raised.value.hint.endswith("qemu-user-static, or set TOOLCHAIN_QEMU_AARCH64")


def test_code_is_made_for_its_machine(bananapi: Profile) -> None:
    before = fingerprint()
    found = target_for(bananapi)
    assert (found.level, str(found.target.attrs["mabi"])) == ("rv64gcv", "lp64d")
    assert machine_of(found) == RVV.of(8)
    assert found.requires == ("v", "zba", "zbb", "zvfh")
    for features in ((), ("-v", "-zve64d")):
        other = bananapi.model_copy(update={"features": features})
        with pytest.raises(UsageError, match="needs vectors, without scalable loops"):
            machine_of(target_for(other))
    plugins.forget()
    assert fingerprint() == before


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_network_is_built_and_linked(
    invoke: Toolchain, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of the package names RISC-V: its row, its machine and a class of boards are all there is."""
    install(tmp_path / "site", monkeypatch)
    write_project(folder)
    copytree(CLASS.parent, folder / "boards" / "bananapi-f3")
    here = ("small.onnx", "--board", "bananapi-f3")

    tasks = invoke("tasks", *here, "--json").document
    (product,) = [task["id"] for task in tasks if "matmul" in task["name"]]
    code = invoke("tasks", *here, "--show", product, "--code", "--form", "assembly").out
    assert "vfmacc.vf" in code, "it multiplies and adds vectors"
    built = invoke("build", *here, "--engine", "host", "-o", "out", "--json").document
    manifest = read_bundle(Path(built["bundle"])).manifest
    assert (manifest.target.triple, manifest.target.mcpu) == (RISCV64.triple, "spacemit-x60")
    assert Path(built["library"]).read_bytes()[18] == 243, "EM_RISCV"


@pytest.mark.parametrize("column", NEEDED)
def test_a_missing_column_of_the_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    write(tmp_path, monkeypatch, f"del columns[{column!r}]")
    with pytest.raises(MissingError, match=rf"the architecture riscv64 .* argument: '{column}'") as raised:
        architecture_of(RISCV64.triple)
    assert "pip uninstall edge-riscv64" in raised.value.hint
    assert [*linux_rows()] == [*table.LINUX.values()], "others work without it"


def test_the_columns_without_a_default_are_needed() -> None:
    assert {"levels", "rates", "fastest", "features", "nan_bounds", "elf_machine"} <= set(NEEDED)


def test_missing_code_of_a_column_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, monkeypatch, 'columns["code"] = {}')
    target = target_for(read_profile(CLASS))
    with pytest.raises(MissingError, match="architecture riscv64: its machine is missing") as raised:
        machine_of(target)
    (name, module) = re.findall(
        r"add it to (\w+) in ([\w/]+)\.py; in a plugin, to `code`", raised.value.hint
    )[0]
    assert getattr(importlib.import_module(module.replace("/", ".")), name) is MACHINES
    assert SEAMS == ("machine",), "each column of code has such a test"


@pytest.mark.parametrize("row", ARCHITECTURES.values(), ids=list(ARCHITECTURES))
def test_each_row_of_ours_has_its_machine(row: Architecture) -> None:
    assert callable(MACHINES.of(row))


def test_a_row_of_ours_without_code_is_an_error_and_not_another_ones() -> None:
    column: CodeColumn[str] = CodeColumn("machine", "X in y.py", {"x86_64": "sse"})
    assert column.of(ARCHITECTURES["x86_64"]) == "sse"
    with pytest.raises(MissingError, match="architecture armv7a: its machine is missing") as raised:
        column.of(ARCHITECTURES["armv7a"])
    assert "X in y.py" in raised.value.hint


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"levels": ()}, "levels: the first one must need no flags"),
        ({"levels": (Level("rv64gcv", frozenset({"v"})),)}, "levels: the first one must need no flags"),
        ({"rates": {}}, "rates: there must be speeds for each level: rv64gc, rv64gcv"),
        ({"products": {"dot": "zvqdotq"}}, "products: zvqdotq is missing in features"),
        ({"code": {"machin": "a:b"}}, "code: unknown column machin; the columns are: machine"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=f"architecture riscv64: {says}"):
        replace(RISCV64, **changes)


@pytest.mark.parametrize(
    ("reference", "state", "found"),
    [
        ("tests.riscv64.machine:rvv", "ok", "1.0, the architecture riscv64"),
        ("edge_riscv64:no_such", "optional", "its machine, edge_riscv64:no_such, cannot be loaded"),
    ],
)
def test_doctor_loads_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, state: str, found: str
) -> None:
    write(tmp_path, monkeypatch, f'columns["code"] = {{"machine": "{reference}"}}')
    (check,) = doctor._check_plugins()
    assert check.state == state and found in check.found


@pytest.mark.parametrize(
    "row", [row for row in table.LINUX.values() if row.edge_rt], ids=lambda row: row.name
)
def test_edge_rt_has_a_folder_for_each_row(row: Architecture) -> None:
    folder = NATIVE / "src" / "arch" / row.zig_target.partition("-")[0]
    assert f'kName = "{row.name}"' in (folder / "cpu.cc").read_text()
    assert f"kElfMachine = {row.elf_machine};" in (folder / "cpu.cc").read_text()
    products = (folder / "rates.cc").read_text()
    assert all(f'{{"{rates.probe}", "float32"' in products for rates in row.rates.values())


def test_edge_rt_names_the_folder_that_an_unknown_architecture_lacks() -> None:
    cmake = Path(sys.executable).parent / "cmake"
    asked = ["-DZIG_TARGET=riscv64-linux-gnu.2.27", "-P", str(NATIVE / "arch.cmake")]
    done = subprocess.run([cmake, *asked], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert "does not know the architecture riscv64: add" in message and "src/arch/riscv64 with" in message
    given = subprocess.run([cmake, f"-DEDGE_RT_ARCH={FOLDER / 'arch'}", *asked], check=False)
    assert given.returncode == 0
