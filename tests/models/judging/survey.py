"""Measures onnxruntime by float64 and by exact integers, operator by operator; run as a program, writes docs.

python -m tests.models.judging.survey
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx

from tests.models.judging.exact import far
from tests.models.judging.trials import WEAK, Trial, trials
from toolchain.arrays import Array
from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.judging.substitutes import with_substitutes
from toolchain.models.reading.onnx_file import with_known_opsets

RESULT = Path(__file__).parents[3] / "docs" / "judges.json"


def computed(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Return what onnxruntime computes, optimised and on one thread as for the reference."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    text = with_known_opsets(model).SerializeToString()
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(None, dict(inputs))
    return results


def measured(trial: Trial, judge: bool = False) -> float | None:
    """Return how far onnxruntime is off; None if one of both cannot compute it.

    Parameters
    ----------
    judge
        Measure the operators that judge in its place, where there are any.
    """
    model = trial.model
    if judge:
        model = with_substitutes(model, "survey", {k: v.shape for k, v in trial.inputs.items()})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return far(computed(model, trial.inputs), trial.exact())
    except (
        Exception
    ):  # the evaluator and onnxruntime each lack some types; their errors have no common parent
        return None


def surveyed(wanted: Iterable[Trial]) -> dict[str, dict[str, Any]]:
    """Return for each operator the worst error and where it was, and the same of what judges in its place."""
    table: dict[str, dict[str, Any]] = {}
    for trial in wanted:
        row = table.setdefault(trial.operator, {"trials": 0, "error": 0.0, "where": "", "judge": None})
        off = measured(trial)
        if off is None:
            continue
        row["trials"] += 1
        replaced = with_substitutes(trial.model, "survey", {k: v.shape for k, v in trial.inputs.items()})
        if replaced is not trial.model:
            row["judge"] = max(row["judge"] or 0.0, measured(trial, judge=True) or 0.0)
        if off > row["error"]:
            row["error"], row["where"] = off, trial.where
    return table


SUBSTITUTE = "float64 or exact integers (`judging/substitutes.py`)"
REMARKS = {
    "Det": "nothing: the digits are lost in the input already",
    "Elu": "nothing: ours subtracts 1 from a power as well, and loses the same digits",
    "GRU": "nothing: its sigmoids are off by 1e-7 of 1, which shows in states that are all small",
    "MaxUnpool": "nothing: with an output_shape it counts places in another shape than ONNX",
    "RNN": "nothing: its tanh is off by 1e-7 of 1, which shows in states that are all small",
    "Selu": "nothing: as for Elu",
    "Sigmoid": "where it makes an output: numpy in float64 (`judging/session.py`)",
    "com.microsoft.QLinearLeakyRelu": "nothing: halves fall to either side, a step apart: allowed",
}
"""Of weak operators without a substitute: what judges them."""


def page(table: Mapping[str, Mapping[str, Any]]) -> str:
    """Return docs/judges.md."""
    weak = {name: row for name, row in table.items() if row["error"] >= WEAK or row["judge"] is not None}
    sound = {name: row for name, row in table.items() if row["trials"] and name not in weak}
    lines = [_HEAD.format(trials=sum(row["trials"] for row in table.values()), operators=len(table))]
    lines += [
        "| operator | onnxruntime is off by | with | what judges instead | which is off by |",
        "|---|---|---|---|---|",
    ]
    for name, row in sorted(weak.items()):
        judge = "" if row["judge"] is None else _number(row["judge"])
        instead = REMARKS.get(name, "") if row["judge"] is None else SUBSTITUTE
        lines.append(f"| {name} | {_number(row['error'])} | {row['where']} | {instead} | {judge} |")
    lines += [_SOUND, "| operator | trials | largest error | with |", "|---|---|---|---|"]
    for name, row in sorted(sound.items()):
        lines.append(f"| {name} | {row['trials']} | {_number(row['error'])} | {row['where']} |")
    untried = ", ".join(sorted(name for name, row in table.items() if not row["trials"]))
    return "\n".join([*lines, "", "## Not measured", "", _UNTRIED, "", untried, ""])


def _number(error: float) -> str:
    return "0" if not error else f"{error:.0e}".replace("e-0", "e-").replace("e+00", "")


_HEAD = """\
<!-- Made by `python -m tests.models.judging.survey`, which measures. -->
# Where onnxruntime is no judge

`verify` compares a library with what onnxruntime computes of the same file. Here onnxruntime itself is
compared, operator by operator, with float64 (onnx's evaluator, numpy) and with exact integers: {operators}
operators, {trials} trials of onnx's own tests of them, also with large means, large and small values, ties,
equal values and zeros, and of sums of up to 262144 values. An error is the largest difference relative to an
output's largest value; of integers it is the share of values that differ.

From 1e-4 on, a tenth of what `verify` allows, something else judges, or a reason stands here why it does not:
"""

_SOUND = """
## Where it is one
"""

_UNTRIED = """\
onnx's evaluator or onnxruntime does not compute these in float32, or they hold sequences:"""


def write() -> None:
    """Measure, and write the numbers and the page."""
    table = surveyed(trials())
    RESULT.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
    RESULT.with_suffix(".md").write_text(page(table))


if __name__ == "__main__":
    write()
