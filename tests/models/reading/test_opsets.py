"""Operator sets newer than onnxruntime's, declared under one that it knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import defs, helper

from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.original import outputs_of
from tests.models.rewrites.judge import loaded
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.preparing.modernise import NEWEST_OPSET
from toolchain.models.reading import onnx_file


def test_sets_newer_than_onnxruntimes_are_verified_where_their_operators_are_old(tmp_path: Path) -> None:
    model = loaded(classifier(opset=NEWEST_OPSET), tmp_path)
    assert NEWEST_OPSET > onnx_file.NEWEST and model.onnx.opset_import[0].version == NEWEST_OPSET
    assert reference_outputs(model, sample_inputs(model))


def declared(standard: int, *operators: str, domain: str = "") -> onnx.ModelProto:
    nodes = [helper.make_node(each, [], [f"y{place}"]) for place, each in enumerate(operators)]
    model = graph_of(nodes, [], [], {}, standard)
    model.opset_import[0].domain = domain
    return model


def changed_since() -> str:
    """Return an operator with a version newer than onnxruntime's set, that takes more than new types."""
    found = {
        schema.name
        for schema in defs.get_all_schemas()
        if schema.since_version > onnx_file.NEWEST and schema.domain == ""
    }
    return min(found - onnx_file.MORE_TYPES)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_an_old_operator_in_a_new_set_is_declared_under_a_known_one(domain: str) -> None:
    model = declared(NEWEST_OPSET, "Relu", domain=domain)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    known = onnx_file.with_known_opsets(model)
    assert [(each.domain, each.version) for each in known.opset_import] == [
        (domain, onnx_file.NEWEST),
        ("ai.onnx.ml", 3),
    ]
    assert model.opset_import[0].version == NEWEST_OPSET, "the given one is left alone"


@pytest.mark.parametrize("operators", [("Relu",), ()])
def test_a_known_set_is_the_same_object(operators: tuple[str, ...]) -> None:
    for model in (declared(onnx_file.NEWEST, *operators), declared(7, *operators)):
        assert onnx_file.with_known_opsets(model) is model


@pytest.mark.parametrize("operator", ["NoSuchOperator", changed_since()])
def test_changed_operator_keeps_its_set(operator: str) -> None:
    model = declared(NEWEST_OPSET, "Relu", operator)
    assert onnx_file.with_known_opsets(model) is model


@pytest.mark.parametrize("operator", sorted(onnx_file.MORE_TYPES))
def test_operators_that_only_take_more_types_are_as_before(operator: str) -> None:
    assert (
        onnx_file.with_known_opsets(declared(NEWEST_OPSET, operator)).opset_import[0].version
        == onnx_file.NEWEST
    )


def test_a_changed_operator_inside_a_branch_counts() -> None:
    inner = declared(NEWEST_OPSET, changed_since()).graph
    inner.name = "branch"
    model = declared(NEWEST_OPSET)
    model.graph.node.append(helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner))
    assert onnx_file.with_known_opsets(model) is model


def test_other_domains_operators_do_not_count() -> None:
    model = declared(NEWEST_OPSET, "Relu")
    model.graph.node.append(helper.make_node("NoSuchOperator", [], ["z"], domain="com.someone"))
    assert onnx_file.with_known_opsets(model).opset_import[0].version == onnx_file.NEWEST


def test_the_newest_is_what_the_pinned_onnxruntime_takes() -> None:
    """A file of the next set is refused, whatever is in it; should that change, NEWEST can grow."""
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    for version in (onnx_file.NEWEST, onnx_file.NEWEST + 1):
        model = graph_of(nodes, [tensor_info("x", (1,))], [tensor_info("y", (1,))], {}, version)
        if version == onnx_file.NEWEST:
            assert outputs_of(model, {"x": np.array([-1], np.float32)})[0] == [0]
        else:
            with pytest.raises(Exception, match=rf"(?i)opset {version}"):
                outputs_of(model, {})
