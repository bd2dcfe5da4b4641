"""Whole networks on a Mali-T860 by the model: what each kernel would take, added; nothing is measured.

It is Mesa's compiler for that GPU and an estimate, a lower bound (docs/decisions/0042-a-model-of-mali.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import tvm
from tvm import relax

from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.backend import Packed, PackedNetwork
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.building.decide import decide_task
from toolchain.lowering.kernels.code import launches_of
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.records.store import user_store
from toolchain.tasks.options import CodeOptions
from toolchain.testbeds.mali.model import MaliModel

BOARD = "rk3399"
GOALS_MS = {("resnet-18", "off"): 115.0, ("resnet-18", "auto"): 75.0, ("mobilenet", "off"): 45.0}
"""(network, winograd) -> what the model should say at most."""
SILICON_MS = {"resnet-18": 128.6, "mobilenet": 75.4}
"""Measured on a Mali-T860 by AutoTVM in 2018, float32 (apache/tvm, pull request 1892); not by us."""
_HEAVIEST = 8


def networks(*, records: bool) -> dict[str, object]:
    """Return what the model says of the networks that have a goal.

    Parameters
    ----------
    records
        Take the user's records and the shipped ones; else every choice is the default.
    """
    with MaliModel() as model:
        rows = [_network(model, *which, records) for which in GOALS_MS]
    return {"model": "Mali-T860 MP4 at 800 MHz; a lower bound, nothing was measured", "networks": rows}


def _network(model: MaliModel, name: str, winograd: str, records: bool) -> dict[str, object]:
    backend = Packed(load_profile(BOARD), CodeOptions(device="opencl", winograd=winograd))
    target = backend.target()
    with backend.lower(load_model(f"zoo:{name}", ModelOptions()), target) as network:
        made = rewrite(network.fused, replace(network.choices, decided=_decided(network) if records else {}))
        rows = [_function(model, made.module, *each, target.target) for each in _calls(made.module)]
    rows.sort(key=lambda row: -float(str(row["ms"])))
    unknown = [row["function"] for row in rows if row["problems"]]
    return {
        "network": name,
        "winograd": winograd,
        "modelled_ms": round(sum(float(str(row["ms"])) for row in rows), 2),
        "goal_ms": GOALS_MS[name, winograd],
        "autotvm_2018_measured_ms": SILICON_MS[name],
        "ours_on_silicon": "not run",
        "without_estimate": unknown,
        "heaviest": rows[:_HEAVIEST],
    }


def _decided(network: PackedNetwork) -> dict[str, Choice]:
    with user_store() as store:
        found = {task: decide_task(network, task, store, network.target, BOARD) for task in network.tasks}
    return {
        name: hit.point for task, hit in found.items() if hit.tuned and hit.point for name in task.functions
    }


def _calls(module: tvm.IRModule) -> Iterator[tuple[str, int]]:
    """Yield what the network calls, and how often."""
    counted: Counter[str] = Counter()
    call_tir = tvm.ir.Op.get("relax.call_tir")

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.Call) and node.op == call_tir:
            counted[node.args[0].name_hint] += 1

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    yield from counted.items()


def _function(
    model: MaliModel, module: tvm.IRModule, name: str, calls: int, target: tvm.target.Target
) -> dict[str, object]:
    asked = model.ask(launches_of(module[name], target, name))
    ms = sum(each.estimate.ms for each in asked if each.estimate)
    multiplies = sum(each.estimate.multiplies * each.kernel.items for each in asked if each.estimate)
    return {
        "function": name,
        "calls": calls,
        "ms": round(calls * ms, 3),
        "gflops": round(2e-6 * multiplies / ms, 1) if ms else 0.0,
        "spills": sum(each.compiled.spills for each in asked if each.compiled),
        "problems": [each.problem for each in asked if each.problem],
    }
