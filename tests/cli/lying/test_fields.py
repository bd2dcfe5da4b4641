"""Each field of each answer with values that it cannot have."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.lying.asking import ESCAPE, INF, MISSING, NAN, Ask, changed, refused
from tests.cli.lying.liar import BENCH, OUTPUTS, RUN, Liar

pytestmark = pytest.mark.slow


NO_TEXT: tuple[object, ...] = (MISSING, 5, [], {"a": 1}, True, ESCAPE, "x" * 5000)
NO_NUMBER: tuple[object, ...] = (MISSING, "abc", "5", NAN, INF, -INF, 10**300, True, [], {}, ESCAPE)
NO_COUNT = (*NO_NUMBER, 1.5, -1)
NO_TIME = (*NO_NUMBER, -1.0, 0, 1e300, 5e-324, 1e-300, 1e-5)  # of 10⁹ operations
NO_LIST: tuple[object, ...] = (MISSING, {}, "abc", 1, None, [5], [None], [[]])

FIELDS: dict[str, dict[str, tuple[object, ...]]] = {
    "info": {
        "version": NO_TEXT,
        "fingerprint": NO_TEXT,
        "machine": NO_TEXT,
        "glibc": (*NO_TEXT, "new", "2.x", "2", "-1.5"),
        "cpu_features": (*NO_LIST, [ESCAPE], ["x"] * 3000),
        "devices": (*NO_LIST, [], [{}], [{"kind": "cpu"}], [{"kind": "cpu", "names": "generic"}]),
        "devices.0.kind": NO_TEXT,
        "devices.1.names": (*NO_LIST, ["x"] * 3000),
        "devices.1.problem": (MISSING, 5, [], True),
        "devices.2.details": ([5], [None], [{}], "abc", 5),
        "devices.2.details.0.type": NO_TEXT,
        "devices.2.details.0.max_work_group": NO_COUNT,
        "devices.2.details.0.max_work_items": (MISSING, "abc", {}, [None], [-1], [1] * 3000),
        "devices.2.details.0.half": (MISSING, 5, "yes"),
        "logical_cpus": (*NO_COUNT, 0),
        "governor": NO_TEXT,
        "temperature_c": (*NO_NUMBER, 1e9),
    },
    "run": {
        "outputs": (*NO_LIST, [], RUN["outputs"] * 2),
        "outputs.0.shape": (*NO_LIST, [-1], [1, 5], [4], [1, 1, 4], [1] * 3000, [10**30]),
        "outputs.0.dtype": (*NO_TEXT, "float64", "no-type"),
        "threads": (*NO_COUNT, 0, 2),
    },
    "bench": {
        "times_ms": (*NO_LIST, [], [1.0] * 4, [1.0] * 2),
        "times_ms.1": (*NO_TIME[1:], 1e9),
        "number": (*NO_COUNT, 0, 2**40, 2**20),
        "runs": (*NO_COUNT, 4),
        "threads": (*NO_COUNT, 0, 2),
        "spin_us": NO_COUNT,
        "peak_rss_mib": (*NO_NUMBER, -0.5),
        "governor": NO_TEXT,
        "temperature_c": (*NO_NUMBER, 1e9),
        "copies_ms": (5, [], "abc", {}, {"to_device": 1.0}),
        "copies_ms.to_device": (*NO_NUMBER, -1.0, 1e300),
        "operators": (*NO_LIST, []),
        "operators.0.name": NO_TEXT[:5],
        "operators.0.calls": (*NO_NUMBER, -1),
        "operators.0.ms": (*NO_NUMBER, -1),
    },
}


def test_accepts_true_answer(ask: Ask, liar: Liar, folder: Path) -> None:
    assert liar.root.is_dir()
    ran = ask("run", "--json")
    assert ran.code == 0, ran.err
    with np.load(folder / "out.npz") as written:
        assert {name: written[name].tolist() for name in written.files} == {
            name: array.tolist() for name, array in OUTPUTS.items()
        }
    assert ask("verify", "--json").document["passed"] is True
    timed = ask("bench", "--profile", "--json").document
    assert (timed["mean_ms"], timed["runs"]) == (1.5, 3)
    unknown = {"gflops": None, "products": None, "share": None}  # the manifest does not tell
    assert [each | unknown for each in timed["operators"]] == timed["operators"]
    assert [{k: v for k, v in each.items() if k not in unknown} for each in timed["operators"]] == BENCH[
        "operators"
    ]
    assert timed["copies_ms"] == BENCH["copies_ms"]
    assert ask("status", "--json").document[0]["edge_rt"] == "1.0.0"


def test_the_table_is_large() -> None:
    assert sum(len(values) for fields in FIELDS.values() for values in fields.values()) > 200


@pytest.mark.parametrize(
    ("verb", "field"), [(verb, field) for verb, fields in FIELDS.items() for field in fields]
)
def test_refuses_impossible_field(ask: Ask, liar: Liar, verb: str, field: str) -> None:
    truth = json.loads((liar.root / "lie" / verb).read_bytes())
    options = ("--profile",) if verb == "bench" else ()
    told = "run" if verb == "info" else verb
    for value in FIELDS[verb][field]:
        liar.say(verb, changed(truth, field, value))
        refused(ask(told, *options), f"`edge-rt {verb}`", field.split(".")[0], "edge-rt anew")
