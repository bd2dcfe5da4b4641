"""What a bundle computes, compared with what is expected: on this host, and on Arm under QEMU."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.measuring.changed import code, nothing_left, with_library
from tests.measuring.small_network import built
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated
from toolchain.bundles.read import Bundle
from toolchain.errors import CheckError
from toolchain.measuring.execution import Execution, OnBoard
from toolchain.measuring.verify import verify_bundle

pytestmark = pytest.mark.slow


def test_verify_passes_on_this_host(for_local: Bundle, local: Board) -> None:
    found = verify_bundle(for_local, OnBoard(local))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["passed"]
    assert [output["name"] for output in document["outputs"]] == ["logits,1", "prob"]
    assert all(output["max_rel_error"] < 1e-5 for output in document["outputs"])
    assert document["outputs"][1]["compared_as"] == "log-probabilities"
    assert (document["board"], document["emulated"], document["shared_cpu"]) == ("local", False, True)
    assert document["threads"] == local.profile.clusters[0].cores
    found.check()
    assert nothing_left(local)


def test_verify_passes_on_aarch64(for_rk3399: Bundle, rk3399: Board) -> None:
    document = verify_bundle(for_rk3399, OnBoard(rk3399)).to_json()
    assert document["passed"]
    assert (document["machine"], document["emulated"]) == ("aarch64", True)
    assert document["threads"] == 2


def test_verify_passes_on_armv7(tmp_path: Path) -> None:
    board = emulated.start("pynq", kind="process", name="arm")
    try:
        found = verify_bundle(built("pynq", tmp_path, format="tar"), OnBoard(board))
        found.check()
        document = found.to_json()
        assert (document["machine"], document["emulated"], document["threads"]) == ("armv7l", True, 2)
    finally:
        emulated.stop("arm")


def test_links_objects_of_tar_bundle(tmp_path: Path, rk3399: Board) -> None:
    assert verify_bundle(built("rk3399", tmp_path, format="tar"), OnBoard(rk3399)).passed


def test_warns_if_cluster_differs_from_build(for_rk3399: Bundle, rk3399: Board) -> None:
    found = verify_bundle(for_rk3399, OnBoard(rk3399), Execution(cluster="cortex-a53"))
    assert found.passed
    assert found.threads == 4
    assert "built for cluster cortex-a72 but runs on cortex-a53" in found.warnings[0]
    assert found.to_json()["cluster"] == "cortex-a53"


def test_fails_on_negated_channel_and_reports_worst_element(
    for_local: Bundle, local: Board, tmp_path: Path
) -> None:
    wrong = built("local", tmp_path, flipped=2)
    found = verify_bundle(with_library(for_local, wrong.library), OnBoard(local))
    assert not found.passed
    with pytest.raises(
        CheckError, match=r"output '(logits,1|prob)': error .* above .*worst at \[0, \d\]: "
    ) as raised:
        found.check()
    assert raised.value.exit_code == 4
    assert "without tuning records" in raised.value.hint
    with pytest.raises(CheckError, match=r"float16 may be too coarse.*--dtype float32"):
        dataclasses.replace(found, dtype="float16").check()


def test_one_changed_instruction_fails(for_rk3399: Bundle, rk3399: Board) -> None:
    library = bytearray(for_rk3399.library)
    begin, end = code(for_rk3399.library)
    # Arm ARM C7.2: FMLA (vector) and FMLA (by element), 4S, differ from FMLS in one bit.
    forms = {(0xFFE0FC00, 0x4E20CC00): 1 << 23, (0xFFC0F400, 0x4F801000): 1 << 14}
    for at in range(begin, end, 4):
        word = int.from_bytes(library[at : at + 4], "little")
        flip = next((bit for (mask, form), bit in forms.items() if word & mask == form), 0)
        if flip:
            library[at : at + 4] = (word ^ flip).to_bytes(4, "little")
            break
    assert bytes(library) != for_rk3399.library
    found = verify_bundle(with_library(for_rk3399, bytes(library)), OnBoard(rk3399))
    assert not found.passed
    assert found.comparison.worst.worst_index is not None
