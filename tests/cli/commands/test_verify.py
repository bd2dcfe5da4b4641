"""`toolchain verify`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.bad_bundles import BUNDLES
from tests.cli.compiling import TOLD, tell_compiling
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.bundles.write import write_bundle
from toolchain.measuring.verifications import remember, verifications


@pytest.mark.slow  # edge-rt may have to be compiled
@pytest.mark.usefixtures("state")
def test_a_right_bundle_passes_and_a_wrong_one_ends_with_4(
    invoke: Toolchain, files: Path, bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(files / "data"))  # others verify the same bundle elsewhere
    good = bundles["local"]
    ran = invoke("verify", good.path, "--board", "local", "--json")
    assert ran.code == 0 and ran.document["passed"] is True
    assert {output["name"] for output in ran.document["outputs"]} == set(good.expected)
    assert set(verifications(good.sha256)) == {"x86_64"}  # which `release sign` asks for
    wrong = {name: array + 1 for name, array in good.expected.items()}
    write_bundle(files / "wrong.bundle", good.manifest, good.library, good.sample, wrong)
    digest = read_bundle(files / "wrong.bundle").sha256
    remember(digest, "x86_64", 0.0, "cpu")  # on another board of the class it passed
    ran = invoke("verify", "wrong.bundle", "--board", "local")
    assert ran.code == 4 and "passed: false" in ran.out
    assert verifications(digest) == {}


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("name", "change", "code", "says"), BUNDLES, ids=[row[0] for row in BUNDLES])
def test_refuses_files_that_are_no_bundles(
    invoke: Toolchain,
    files: Path,
    bundles: dict[str, Bundle],
    name: str,
    change: Callable[[bytes], bytes],
    code: int,
    says: list[str],
) -> None:
    bad = files / f"{name}.bundle"
    bad.write_bytes(change(bundles["local"].path.read_bytes()))
    refused(invoke, files, code, [bad.name, *says], "verify", bad.name, "--board", "local")


@pytest.mark.usefixtures("state")
def test_refuses_bundles_for_other_boards(invoke: Toolchain, files: Path, bundles: dict[str, Bundle]) -> None:
    other, local = bundles["rk3399"], bundles["local"]
    refused(invoke, files, 2, ["aarch64", "--board local"], "verify", other.path, "--board", "local")
    refused(invoke, files, 2, ["nosuch.bundle"], "verify", "nosuch.bundle", "--board", "local")
    refused(invoke, files, 2, ["rk3399", "emulate start"], "verify", other.path, "--board", "rk3399")
    write_bundle(
        files / "demanding.bundle",
        local.manifest.model_copy(update={"requires": ("avx9000",)}),
        local.library,
        local.sample,
        local.expected,
    )
    refused(invoke, files, 2, ["avx9000", "local"], "verify", "demanding.bundle", "--board", "local")


@pytest.mark.slow  # edge-rt may have to be compiled
@pytest.mark.usefixtures("state", "files")
def test_compilation_of_edge_rt_is_reported(
    invoke: Toolchain, bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_compiling(monkeypatch, "toolchain.boards.edge_rt.install")
    ran = invoke("verify", bundles["local"].path, "--board", "local", "--json")
    assert ran.code == 0 and ran.document["passed"] is True
    assert TOLD in ran.err.splitlines()
