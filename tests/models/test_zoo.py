"""The zoo's networks against their published sizes, and whether their outputs mean something."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.models.reference import reference_outputs, sample_inputs
from toolchain.models.source import read_source
from toolchain.models.zoo import ZOO

# Parameters and multiply-accumulates, in millions:
# - MobileNet-v1 1.0 224: 4.23 M and 569 M, "1.0 MobileNet-224" of arXiv:1704.04861 and of TensorFlow's
#   model page (github.com/tensorflow/models, research/slim/nets/mobilenet_v1.md)
# - ResNet-18: 11.69 M and 1.81 G, torchvision's ResNet18_Weights.IMAGENET1K_V1
# - SqueezeNet 1.1: 1.235 M and 0.35 G, torchvision's SqueezeNet1_1_Weights.IMAGENET1K_V1
PUBLISHED = {"mobilenet": (4.23, 569.0), "resnet-18": (11.69, 1814.0), "squeezenet_v1.1": (1.235, 349.0)}
TOLERANCE = 0.005  # published numbers are rounded to three digits


@pytest.fixture(scope="module", params=list(ZOO))
def network(request: pytest.FixtureRequest) -> Model:
    return load_model(f"zoo:{request.param}", ModelOptions())


def test_size_is_the_published_one_and_the_listed_one(network: Model) -> None:
    found = inspect_model(network.name, ModelOptions())
    parameters, macs = PUBLISHED[network.name]
    assert found["parameters"] == pytest.approx(parameters * 1e6, rel=TOLERANCE)
    assert found["macs"] == pytest.approx(macs * 1e6, rel=TOLERANCE)
    listed = ZOO[network.name]
    assert (listed.parameters, listed.macs) == (found["parameters"], found["macs"])
    assert found["flops"] == 2 * found["macs"] and found["unsupported"] == []


def test_outputs_depend_on_the_input(network: Model) -> None:
    """Logits spread by 0.1 to 10 (standard deviation over the classes), and the winner changes."""
    winners = set()
    for seed in range(8):
        output = reference_outputs(network, sample_inputs(network, seed))["output"]
        assert output.shape == (1, 1000) and output.sum() == pytest.approx(1, abs=1e-5)
        assert 0.1 <= np.log(output).std() <= 10  # logarithms of a softmax are logits less a constant
        winners.add(int(output.argmax()))
    assert len(winners) >= 3


def test_specs_are_those_of_the_graph(network: Model) -> None:
    assert [str(spec) for spec in network.inputs] == ["data [1, 3, 224, 224] float32"]
    assert [str(spec) for spec in network.outputs] == ["output [1, 1000] float32"]
    assert network.softmax_outputs == {"output"}
    assert len(network.module["main"].params) == 1


def test_weights_are_the_same_in_every_process_and_follow_the_seed() -> None:
    code = (
        "from toolchain.models.source import read_source; from toolchain.models.options import ModelOptions;"
        "print(read_source('zoo:squeezenet_v1.1', ModelOptions()).sha256)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = read_source("squeezenet_v1.1", ModelOptions())
    assert here.sha256 == other.stdout.strip()
    assert here.sha256 != read_source("squeezenet_v1.1", ModelOptions(weights_seed=1)).sha256


def test_mobilenet_is_made_within_a_second() -> None:
    start = time.perf_counter()
    read_source("zoo:mobilenet", ModelOptions())
    assert time.perf_counter() - start < 1


def test_batch_and_shape_are_the_users() -> None:
    assert load_model("squeezenet_v1.1", ModelOptions(batch=2)).inputs[0].shape == (2, 3, 224, 224)
    small = load_model("squeezenet_v1.1", ModelOptions(shapes={"data": (1, 3, 64, 48)}))
    assert small.inputs[0].shape == (1, 3, 64, 48) and small.outputs[0].shape == (1, 1000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ModelOptions(shapes={"data": (1, 1, 64, 64)}),
            "--shape data=1,1,64,64: squeezenet_v1.1 takes N,3,H,W",
        ),
        (ModelOptions(shapes={"date": (1, 3, 64, 64)}), "no input 'date'.*data"),
        (ModelOptions(shapes={"data": (1, 3, 2, 2)}), "fit together: nothing is left of '"),
        (ModelOptions(batch=3, shapes={"data": (1, 3, 64, 64)}), "--batch 3.*data=1,3,64,64"),
    ],
)
def test_a_shape_that_the_network_cannot_have_is_refused(options: ModelOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_model("zoo:squeezenet_v1.1", options)


@pytest.mark.slow  # imports and compiles three networks, without schedules, at 1/50 of their size
@pytest.mark.parametrize("name", list(ZOO))
def test_relax_module_computes_what_onnxruntime_computes(name: str) -> None:
    import tvm
    from tvm import relax

    model = load_model(name, ModelOptions(shapes={"data": (1, 3, 32, 32)}))
    inputs = sample_inputs(model, seed=5)
    expected = reference_outputs(model, inputs)["output"]
    executable = tvm.compile(model.module, target=tvm.target.Target({"kind": "llvm"}))
    arrays = [tvm.runtime.tensor(inputs[spec.name]) for spec in model.inputs]
    output = relax.VirtualMachine(executable, tvm.cpu())["main"](*arrays).numpy()
    error = np.abs(np.log(output) - np.log(expected)).max()
    assert error < 1e-3
