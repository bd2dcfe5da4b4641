"""Networks quantised by onnxruntime's own tool: they verify, and an error of one layer does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from tests.e2e.faults import FAULTS, with_faults
from tests.models.quantising.affine.networks import mobile
from tests.models.rewrites.test_quantised_dynamic import dynamic, lstm
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.building.tolerances import rounding_tolerances
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.bundles.write import write_bundle
from toolchain.errors import CheckError
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.numerics import Tolerance, compare
from toolchain.measuring.verify import verify_bundle
from toolchain.models.judging.reference import Reference, reference_outputs, sample_inputs
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.models.reading.source import read_source
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow

FORMS = [("QDQ", "QUInt8", True), ("QDQ", "QInt8", False), ("QOperator", "QUInt8", False)]
FORMS += [("QOperator", "QInt8", True)]
SHAPE = (1, 3, 64, 64)


class Samples(CalibrationDataReader):
    """Normal numbers, as the sample inputs are."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.left = [{"data": random.standard_normal(SHAPE).astype(np.float32)} for _ in range(2)]

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def quantised(name: str, folder: Path, form: str, kind: str, channels: bool, logits: bool) -> Model:
    """Return a network of the zoo as onnxruntime quantises it, with its softmax or without."""
    source, plain, out = (folder / each for each in ("float.onnx", "plain.onnx", "quantised.onnx"))
    onnx.save(read_source(f"zoo:{name}", ModelOptions(shapes={"data": SHAPE})).proto, source)
    quant_pre_process(source, plain, skip_symbolic_shape=True)  # folds batch norms, as its maker advises
    model = onnx.load(plain)
    if logits:
        last = next(node for node in model.graph.node if node.op_type == "Softmax")
        model.graph.node.remove(last)
        model.graph.output[0].name = last.input[0]
        onnx.save(model, plain)
    quantize_static(
        plain,
        out,
        Samples(),
        quant_format=QuantFormat[form],
        per_channel=channels,
        activation_type=QuantType[kind],
        weight_type=QuantType.QInt8,
    )
    return load_model(str(out), ModelOptions())


def built(model: Model, folder: Path) -> Bundle:
    return read_bundle(build(model, find_target("x86_64"), None, folder).bundle)


NETWORKS = ("squeezenet_v1.1", "mobilenet", "resnet-18")
OFTEN = [(NETWORKS[0], *FORMS[0], False), (NETWORKS[0], *FORMS[1], True), (NETWORKS[0], *FORMS[3], True)]
ALL = [(name, *form, logits) for name in NETWORKS for form in FORMS for logits in (False, True)]


@pytest.mark.parametrize(
    ("name", "form", "kind", "channels", "logits"),
    [*OFTEN, *(pytest.param(*each, marks=pytest.mark.full) for each in ALL if each not in OFTEN)],
)
def test_static_quantisation_is_computed_to_the_last_step(
    name: str, form: str, kind: str, channels: bool, logits: bool, tmp_path: Path
) -> None:
    model = quantised(name, tmp_path, form, kind, channels, logits)
    assert model.rounding is not None
    assert len(model.rounding.uncertain) == (0 if logits else 1)
    bundle = built(model, tmp_path / "out")
    (allowed,) = bundle.manifest.tolerances
    assert allowed.number <= 2 and allowed.step is not None and allowed.reason
    result = verify_bundle(bundle, OnBoard(find_board("local")))
    result.check()
    (output,) = result.to_json()["outputs"]
    assert output["compared_as"] == "steps"
    assert output["error_steps"] <= (0.01 if logits else 1.01)


@pytest.fixture(scope="module")
def squeezenet(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Model]:
    folder = tmp_path_factory.mktemp("squeezenet")
    for name in ("softmax", "logits"):
        (folder / name).mkdir()
    return {
        logits: quantised("squeezenet_v1.1", folder / ("logits" if logits else "softmax"), *FORMS[2], logits)
        for logits in (False, True)
    }


def missed(model: Model, every: int = 1) -> tuple[Counter[str], Counter[str]]:
    """Return how many errors of single layers the tolerances let pass, and how many there were, by kind."""
    sample = sample_inputs(model)
    expected = reference_outputs(model, sample)
    tolerances = {
        each.output: Tolerance(each.number, each.step, each.values, each.reason)
        for each in rounding_tolerances(model, Reference(sample, expected), "cpu", "float32", 1e-3)
    }
    passed: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for number, (fault, _layer, wrong) in enumerate(with_faults(model.onnx)):
        if number % every:
            continue
        tried[fault] += 1
        outputs = reference_outputs(replace(model, onnx=wrong), sample)
        passed[fault] += compare(outputs, expected, tolerances).passed
    return passed, tried


def test_an_error_of_any_layer_is_seen(squeezenet: dict[bool, Model]) -> None:
    """What onnxruntime computes of a wrong file is what we would: ours is equal to it to the last step."""
    passed, tried = missed(squeezenet[True])
    assert set(tried) == set(FAULTS) and min(tried.values()) >= 26
    assert not +passed


def test_behind_a_rounded_softmax_most_errors_are_seen(squeezenet: dict[bool, Model]) -> None:
    """Of a thousand probabilities in steps of 1/256 sixteen are not 0: some errors leave no trace."""
    passed, tried = missed(squeezenet[False], every=2)
    assert passed.total() <= 0.2 * tried.total()
    assert passed["scale 10 % off"] == 0


@pytest.mark.parametrize(
    "fault",
    [
        "zero point 3 off",
        *(pytest.param(each, marks=pytest.mark.full) for each in FAULTS if "zero" not in each),
    ],
)
def test_a_library_with_an_error_in_one_layer_fails(
    fault: str, squeezenet: dict[bool, Model], tmp_path: Path
) -> None:
    right = squeezenet[True]
    layers = [wrong for name, _layer, wrong in with_faults(right.onnx) if name == fault]
    onnx.save(layers[len(layers) // 2], tmp_path / "wrong.onnx")
    wrong = built(load_model(str(tmp_path / "wrong.onnx"), ModelOptions()), tmp_path / "wrong")
    truth = reference_outputs(right, dict(wrong.sample))
    manifest = wrong.manifest.model_copy(update={"files": {}})
    write_bundle(tmp_path / "mixed.bundle", manifest, wrong.library, wrong.sample, truth)
    with pytest.raises(CheckError, match=r"\d+ values are off by up to [\d.]+ steps of .*all sums are exact"):
        verify_bundle(read_bundle(tmp_path / "mixed.bundle"), OnBoard(find_board("local"))).check()


@pytest.mark.parametrize("batch", [1, pytest.param(3, marks=pytest.mark.full)])
def test_a_recurrent_layer_of_dynamic_quantisation_verifies(batch: int, tmp_path: Path) -> None:
    onnx.save(dynamic(lstm(steps=12, batch=batch, direction="bidirectional"), tmp_path), tmp_path / "l.onnx")
    model = load_model(str(tmp_path / "l.onnx"), ModelOptions())
    bundle = built(model, tmp_path / "out")
    result = verify_bundle(bundle, OnBoard(find_board("local")))
    result.check()
    assert max(each.max_rel_error or 0 for each in result.comparison.outputs) < 2e-5
    assert all(each.number < 0.01 for each in bundle.manifest.tolerances)


OURS = ("squeezenet_v1.1", "mobilenet", "resnet-18", "resnet-50", "inception_v3")


@pytest.mark.parametrize(
    "name", [OURS[0], *(pytest.param(each, marks=pytest.mark.full) for each in OURS[1:])]
)
def test_our_own_quantiser_is_computed_to_the_last_step(name: str, tmp_path: Path) -> None:
    """The softmax at the end stays in floats; one step of any layer would move its logarithms by far more."""
    shapes = {} if name == "inception_v3" else {"data": SHAPE}
    model = load_model(f"zoo:{name}", ModelOptions(quantizer="mse", shapes=shapes))
    assert model.quantised is not None and model.rounding is not None and not model.rounding.uncertain
    assert all("no integer form" in why or "no convolution" in why for why in model.quantised.left.values())
    target = find_target("x86_64")
    made = build(model, target, None, tmp_path, BuildOptions(code=CodeOptions(dtype="int8")))
    bundle = read_bundle(made.bundle)
    facts = bundle.manifest.quantising
    assert facts is not None and facts.quantizer == "mse" and len(facts.layers) >= 26
    result = verify_bundle(bundle, OnBoard(find_board("local")))
    result.check()
    (output,) = result.comparison.outputs
    assert output.compared_as == "log-probabilities" and (output.max_rel_error or 0) < 2e-6


def test_what_mobile_networks_are_made_of_is_computed_in_integers(tmp_path: Path) -> None:
    onnx.save(mobile(), tmp_path / "mobile.onnx")
    model = load_model(str(tmp_path / "mobile.onnx"), ModelOptions(quantizer="mse"))
    options = BuildOptions(code=CodeOptions(dtype="int8"))
    bundle = read_bundle(build(model, find_target("x86_64"), None, tmp_path / "out", options).bundle)
    (allowed,) = bundle.manifest.tolerances
    assert allowed.step is not None and allowed.number <= 2
    result = verify_bundle(bundle, OnBoard(find_board("local")))
    result.check()
    assert result.comparison.outputs[0].compared_as == "steps"
