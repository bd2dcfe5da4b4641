"""Real power cuts of a whole machine in the middle of an update: the old or the new release works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.machines.cuts import cuts, ready
from tests.machines.field import Field, toolchain
from tests.machines.machine import Machine, machine
from tests.machines.programs import path_with_qemu

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]  # each cut takes up to two minutes
CUTS, SEED = 12, 29


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    folder = tmp_path_factory.mktemp("field")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path_with_qemu())
        patch.setenv("TOOLCHAIN_STATE_DIR", str(folder / "state"))
        with machine("cut") as made:
            yield ready(folder, made)


@pytest.fixture
def target(field: Field) -> Machine:
    return field.machine


def test_after_every_cut_the_old_or_the_new_release_works(target: Machine, field: Field) -> None:
    done = list(cuts(range(CUTS), SEED, target, field))
    assert len(done) == CUTS
    assert len({cut.step for cut in done}) > 1, "the cuts fell into several steps"


def test_a_rollout_and_its_way_back_on_a_whole_machine(target: Machine, field: Field) -> None:
    target.restore()
    board, (_, new) = target.board.name, field.versions
    toolchain("deploy", new.bundle, "--board", board)
    assert field.check() == "2.0.0"
    assert "2.0.0" in toolchain("fleet", "status", "--board", board)
    toolchain("rollback", "--board", board, "--app", "toy")
    assert field.check() == "1.0.0"
