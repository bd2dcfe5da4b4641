"""For how many work items conditions hold."""

from __future__ import annotations

import pytest

from toolchain.devices.kernel import Kernel
from toolchain.testbeds.mali.estimate import Guards

SOURCE = """
  int cse_v1 = ((convert_int(get_group_id(0))) * 8);
  int cse_v2 = (cse_v1 + (convert_int(get_local_id(0))));
  int loaded = x[3];
"""
COLUMN = "((convert_int(get_group_id(0))) * 8) + (convert_int(get_local_id(0)))"


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        (f"({COLUMN}) < 7", 7 / 32),
        ("cse_v2 >= 16", 0.5),
        ("(cse_v2 % 4) == 3", 0.25),
        ("(cse_v2 / 4) != 0", 28 / 32),
        ("((cse_v2 >> 1) & 1) == 0", 0.5),
        ("(cse_v2 < 8) || ((convert_int(get_local_id(1))) == 0)", 1 / 4 + 3 / 4 / 8),
        ("(cse_v2 < 8) && ((convert_int(get_local_id(1))) == 0)", 1 / 32),
        ("1 < 2", 1.0),
        ("cse_v2 < 0", 0.0),
        ("loaded < 3", 1.0),
        ("v_3 < 3", 1.0),
        ("cse_v2 < ", 1.0),
        ("(cse_v2 / 0) < 1", 1.0),
        ("x[cse_v2] < 1.0f", 1.0),
    ],
)
def test_share(condition: str, share: float) -> None:
    guards = Guards(Kernel("k", SOURCE, (8, 8, 1), (4, 2, 1)))
    assert guards.share(condition) == pytest.approx(share)
