"""The tasks of a network: what there is to tune."""

from __future__ import annotations

import pytest
from tvm import relax

from tests.backends.packed.computed import loaded
from tests.models.bounds.cases import CASES
from toolchain.boards.inventory.lookup import find_target
from toolchain.lowering.functions.tasks import FusedTask, extract_tasks
from toolchain.lowering.graph.pipeline import fuse
from toolchain.models.load import Model
from toolchain.targets.target import target_for
from toolchain.tasks.task import ID_LENGTH


@pytest.fixture(scope="module")
def tasks(model: Model) -> list[FusedTask]:
    return extract_tasks(fuse(model.module, target_for(find_target("rk3399").profile).target))


def test_every_operator_is_in_one_task(tasks: list[FusedTask]) -> None:
    kinds = ("max_pool2d", "mean", "softmax", "matmul")
    for kind in kinds:
        assert sum(kind in task.name for task in tasks) == 1
    assert sum(task.weight for task in tasks if "conv2d" in task.name) == 5
    assert sum(task.weight for task in tasks) == 9


def test_functions_that_compute_the_same_are_one_task(tasks: list[FusedTask]) -> None:
    (twins,) = (task for task in tasks if task.weight == 2)
    assert twins.shapes == ((1, 8, 6, 6), (8, 8, 1, 1), (1, 8, 6, 6))
    assert len({task.workload for task in tasks}) == len(tasks)


def test_ids_are_the_first_digits_of_the_workload(tasks: list[FusedTask]) -> None:
    for task in tasks:
        assert task.workload.startswith(task.id)
        assert len(task.id) == ID_LENGTH
        assert int(task.id, 16) >= 0
    assert len({task.id for task in tasks}) == len(tasks)


def test_flops_are_those_of_the_convolution_and_what_is_fused_behind(tasks: list[FusedTask]) -> None:
    stem = next(task for task in tasks if task.shapes[1] == (8, 3, 3, 3))
    pixels, per_pixel = 8 * 6 * 6, 2 * 3 * 3 * 3
    assert pixels * per_pixel <= stem.flops <= pixels * (per_pixel + 3)


def test_the_heaviest_task_comes_first(tasks: list[FusedTask]) -> None:
    weights = [task.weight * task.flops for task in tasks]
    assert weights == sorted(weights, reverse=True)


def test_outputs_are_the_last_parameters(tasks: list[FusedTask]) -> None:
    assert all(task.outputs == 1 for task in tasks)
    assert all(len(task.func.params) == len(task.shapes) for task in tasks)


def test_tasks_are_printed_with_the_promised_keys(tasks: list[FusedTask]) -> None:
    for task in tasks:
        assert list(task.to_json()) == ["id", "name", "weight", "flops", "shapes"]


def test_the_workload_depends_on_the_network_alone(model: Model, tasks: list[FusedTask]) -> None:
    for board in ("x86_64", "local"):
        again = extract_tasks(fuse(model.module, target_for(find_target(board).profile).target))
        assert [task.workload for task in again] == [task.workload for task in tasks]


def test_fusing_leaves_the_model_alone(model: Model) -> None:
    before = model.module.script()
    fuse(model.module, target_for(find_target("x86_64").profile).target)
    assert model.module.script() == before


def test_batch_norms_are_gone_and_reshapes_are_no_tasks(model: Model, tasks: list[FusedTask]) -> None:
    fused = fuse(model.module, target_for(find_target("x86_64").profile).target)
    called = []
    relax.analysis.post_order_visit(
        fused["main"], lambda node: called.append(node.op) if isinstance(node, relax.Call) else None
    )
    assert len(called) >= sum(task.weight for task in tasks)
    assert not [task for task in tasks if "batch_norm" in task.name or "reshape" in task.name]


def test_a_loop_whose_length_depends_on_values_counts_once() -> None:
    case = next(each for each in CASES if each.operator == "RoiAlign")
    target = target_for(find_target("rk3399").profile).target
    (task,) = (
        each for each in extract_tasks(fuse(loaded(case.model()).module, target)) if "align" in each.name
    )
    assert 24 < task.flops < 10_000  # 24 means, each of a hundred operations
