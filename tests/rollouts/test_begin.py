"""What is refused before a rollout touches any board."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rollouts.toys import toy_board, toy_release
from toolchain.boards.inventory.lookup import local_board
from toolchain.errors import UsageError
from toolchain.releases.statement import Verified
from toolchain.rollouts.course import check_verified

BY_EMULATED = Verified(board_class="rk3399+emulated", at=1_789_000_000, error_ppb=100, latency_us=None)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("verified", "by"), [(None, "by no board"), (BY_EMULATED, "by emulated boards alone")]
)
def test_an_unverified_release_is_refused_with_the_whole_way_to_a_verified_one(
    tmp_path: Path, verified: Verified | None, by: str
) -> None:
    signed, real = toy_release(tmp_path, verified=verified), local_board()
    check_verified(signed, [toy_board(tmp_path / "toy")])
    with pytest.raises(UsageError, match=f"tiny 2.0.0 was verified {by}, and local is a real one") as caught:
        check_verified(signed, [toy_board(tmp_path / "toy"), real])
    way = [
        f"toolchain verify {signed.bundle} --board local",
        f"remove {signed.file}",
        f"toolchain release sign {signed.bundle} --key KEY --version VERSION --expires DATE",
        "or add --allow-unverified",
    ]
    places = [caught.value.hint.find(step) for step in way]
    assert -1 not in places and places == sorted(places), caught.value.hint
    assert (f"--classes {real.record_class}" in caught.value.hint) == (verified is not None)
