"""Counts what became of onnx's tests, by operator, for the reference page; run as a program, writes it.

    python -m tests.e2e.onnx_nodes.table VERDICTS.jsonl …

Of an operator with tests that passed, one says what its code is made by. A later file's verdicts win.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import onnx

from tests.e2e.onnx_nodes.cases import Case, network_cases, node_cases
from tests.e2e.onnx_nodes.judge import OUTSIDE, PASSED, REFUSED
from toolchain.models.rewrites import operator_of

RESULT = Path(__file__).parents[3] / "docs" / "onnx-nodes.json"
NETWORKS = "networks"


def operators() -> dict[str, str]:
    """Return the operator that each case is about; an expanded one's is the one that was written out."""
    found: dict[str, str] = {}
    for case in sorted(node_cases(), key=lambda case: "_expanded" in case.name):
        whole = found.get(case.name.partition("_expanded")[0]) if "_expanded" in case.name else None
        found[case.name] = whole or operator_of(case.model.graph.node[0])
    return found | {case.name: NETWORKS for case in network_cases()}


def counted(verdicts: Iterable[dict[str, Any]], rules: dict[str, list[str]]) -> dict[str, Any]:
    """Return the counts in all and by operator, with the reasons of what was refused."""
    about = operators()
    whole: Counter[str] = Counter()
    table: dict[str, dict[str, Any]] = {}
    for verdict in verdicts:
        kind = verdict["verdict"]
        whole[kind] += 1
        row = table.setdefault(about[verdict["case"]], {PASSED: 0, REFUSED: {}, OUTSIDE: {}, "rules": []})
        if kind == PASSED:
            row[PASSED] += 1
        else:
            reasons = row.setdefault(kind, {})
            reason = _plain(verdict["reason"])
            reasons[reason] = reasons.get(reason, 0) + 1
    for operator, names in rules.items():
        if operator in table:
            table[operator]["rules"] = names
    return {"cases": dict(sorted(whole.items())), "operators": dict(sorted(table.items()))}


def _plain(reason: str) -> str:
    """Return a reason without the names of files, nodes and tensors, and without the hint."""
    text = re.sub(r"/\S*network\.onnx:? ?", "", reason)
    text = re.sub(r"\(node [^)]*\) ?", "", text.partition(" (export")[0].partition(" (check")[0])
    text = re.sub(
        r"onnxruntime, which .* cannot (load|run) it: (\[ONNXRuntimeError\] : \d+ : \w+ : )?",
        "onnxruntime: ",
        text,
    )
    text = re.sub(r" \((toolchain|if|hand|tried|build|`).*$", "", text, flags=re.S)
    text = re.sub(r"unsupported operators: \S+ \(.*", "no code for it", text)
    text = re.sub(r"(?<!\w)'[^']*' ?", "", text)
    return re.sub(r"\[?[\w/.]+=[\d,?]+\]?", "", text).strip(" :.")[:160]


def rules_of(cases: Sequence[Case]) -> list[str]:
    """Return what the code of cases is made by, the first that can be loaded."""
    from toolchain.backends.packed.machines import machine_of
    from toolchain.backends.packed.network.choices import Choices
    from toolchain.backends.packed.network.rewrite import rewrite
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.lowering.graph.pipeline import fuse
    from toolchain.models.load import load_model
    from toolchain.models.options import ModelOptions
    from toolchain.targets.target import target_for

    made_for = target_for(find_target("x86_64").profile)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases[:2]:
            path = Path(folder) / "network.onnx"
            onnx.save(case.model, path)
            try:
                fused = fuse(load_model(str(path), ModelOptions()).module, made_for.target)
                rules = rewrite(fused, Choices(machine_of(made_for))).rules
            except Exception:  # noqa: S112 - the next one may do
                continue
            if rules:
                return sorted(set(rules.values()))
    return []


def main(paths: Sequence[str]) -> None:
    """Write the page's numbers."""
    latest = {
        verdict["case"]: verdict
        for path in paths
        for verdict in map(json.loads, Path(path).read_text().splitlines())
    }
    about = operators()
    passed: dict[str, list[Case]] = {}
    for case in node_cases():
        if latest.get(case.name, {}).get("verdict") == PASSED:
            passed.setdefault(about[case.name], []).append(case)
    rules = {operator: rules_of(cases) for operator, cases in sorted(passed.items())}
    RESULT.write_text(json.dumps(counted(latest.values(), rules), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
