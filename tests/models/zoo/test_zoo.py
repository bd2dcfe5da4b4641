"""The zoo's networks against their published sizes, and whether their outputs mean something."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import onnx
import pytest

from toolchain.errors import UsageError
from toolchain.models.inspect import count_macs, count_parameters, inspect_model
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.preparing.tensor_types import dimensions
from toolchain.models.reading.source import read_source
from toolchain.models.zoo import ZOO
from toolchain.models.zoo.graph_builder import GraphBuilder

pytestmark = pytest.mark.slow

# Parameters and, in millions, multiply-accumulates, as published:
# - MobileNet-v1 1.0 224: 4.23 M and 569 M, "1.0 MobileNet-224" of arXiv:1704.04861 and of TensorFlow's
#   model page (github.com/tensorflow/models, research/slim/nets/mobilenet_v1.md)
# - all others: "num_params" and "GFLOPS" (which are multiply-accumulates) of the weights IMAGENET1K_V1,
#   KINETICS400_V1 for r3d_18, on torchvision's pages (pytorch.org/vision/stable/models.html)
# - Inception v3 is published with its auxiliary head, which isn't used but in training: 1x1 to 128 and
#   5x5 to 768 with batch norms, then 1000 units
AUXILIARY_HEAD = 768 * 128 + 2 * 128 + 5 * 5 * 128 * 768 + 2 * 768 + 768 * 1000 + 1000
PUBLISHED = {
    "inception_v3": (27_161_264 - AUXILIARY_HEAD, 5_713),
    "mobilenet": (4_230_000, 569),
    "resnet-18": (11_689_512, 1_814),
    "resnet-34": (21_797_672, 3_664),
    "resnet-50": (25_557_032, 4_089),
    "resnet-101": (44_549_160, 7_801),
    "resnet-152": (60_192_808, 11_514),
    "resnet3d-18": (33_371_472, 40_697),
    "squeezenet_v1.1": (1_235_496, 349),
    "vgg-11": (132_863_336, 7_609),
    "vgg-13": (133_047_848, 11_308),
    "vgg-16": (138_357_544, 15_470),
    "vgg-19": (143_667_240, 19_632),
}
ROUNDED = {"mobilenet"}  # its paper gives three digits; the others' parameters are exact

# Small inputs for large networks: what is tested needs no more, and VGG's first dense layer shrinks too.
SMALL = {
    "inception_v3": (1, 3, 107, 107),
    "resnet3d-18": (1, 3, 4, 48, 48),
    **{f"resnet-{layers}": (1, 3, 64, 64) for layers in (34, 50, 101, 152)},
    **{f"vgg-{layers}": (1, 3, 32, 32) for layers in (11, 13, 16, 19)},
}
FAST = ("mobilenet", "resnet-18", "squeezenet_v1.1")
SLOW = ("inception_v3", "resnet-50", "resnet3d-18", "vgg-16")  # one of a kind; REST is in test-all
REST = [name for name in ZOO if name not in (*FAST, *SLOW)]
BY_COST = [
    *FAST,
    *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.full]) for name in REST),
]
BATCH = 8


class Weightless(GraphBuilder):
    """Knows the shapes of large weights and draws none of them."""

    def _he_normal(self, name: str, shape: tuple[int, ...]) -> str:
        self._graph.initializer.add(name=name, dims=shape, data_type=onnx.TensorProto.FLOAT)
        return name


def outline(name: str) -> onnx.ModelProto:
    """Return a network without its large weights, with all shapes."""
    net = Weightless(name, ZOO[name].shape, seed=0)
    return infer_shapes(net.finish(ZOO[name].define(net)), name)


@pytest.mark.parametrize("name", ZOO)
def test_sizes_are_the_published_ones_and_the_listed_ones(name: str) -> None:
    model = outline(name)
    parameters, macs = count_parameters(model), count_macs(model)
    assert (parameters, macs) == (ZOO[name].parameters, ZOO[name].macs)
    published, published_macs = PUBLISHED[name]
    assert parameters == pytest.approx(published, rel=0.001 if name in ROUNDED else 0)
    assert macs == pytest.approx(published_macs * 1e6, rel=0.0005)


@pytest.mark.parametrize("name", ZOO)
def test_input_and_output_are_the_published_ones(name: str) -> None:
    graph = outline(name).graph
    shape = {"resnet3d-18": (1, 3, 16, 112, 112), "inception_v3": (1, 3, 299, 299)}.get(name)
    assert [(value.name, dimensions(value)) for value in graph.input] == [("data", shape or (1, 3, 224, 224))]
    classes = 400 if name == "resnet3d-18" else 1000
    assert [(value.name, dimensions(value)) for value in graph.output] == [("output", (1, classes))]


@pytest.fixture(scope="module", params=BY_COST)
def network(request: pytest.FixtureRequest) -> Model:
    _, *rest = SMALL.get(request.param, ZOO[request.param].shape)
    return load_model(f"zoo:{request.param}", ModelOptions(shapes={"data": (BATCH, *rest)}))


def test_outputs_depend_on_the_input(network: Model) -> None:
    """Logits spread by 0.1 to 10 (standard deviation over the classes), and the winner changes."""
    outputs = reference_outputs(network, sample_inputs(network))["output"]
    np.testing.assert_allclose(outputs.sum(axis=1), 1, atol=1e-5)
    spread = np.log(outputs).std(axis=1)  # logarithms of a softmax are logits less a constant
    assert spread.min() >= 0.1 and spread.max() <= 10
    assert len(set(outputs.argmax(axis=1))) >= 3


def test_specs_are_those_of_the_graph(network: Model) -> None:
    extents = [BATCH, *SMALL.get(network.name, ZOO[network.name].shape)[1:]]
    assert [str(spec) for spec in network.inputs] == [f"data {extents} float32"]
    classes = 400 if network.name == "resnet3d-18" else 1000
    assert [str(spec) for spec in network.outputs] == [f"output [{BATCH}, {classes}] float32"]
    assert network.softmax_outputs == {"output"}
    assert len(network.module["main"].params) == 1


@pytest.mark.parametrize("name", FAST)
def test_inspect_matches_the_listing(name: str) -> None:
    found = inspect_model(f"zoo:{name}", ModelOptions())
    assert (found["parameters"], found["macs"]) == (ZOO[name].parameters, ZOO[name].macs)
    assert found["flops"] == 2 * found["macs"] and found["unsupported"] == []


def test_weights_are_the_same_in_every_process_and_follow_the_seed() -> None:
    code = (
        "from toolchain.models.reading.source import read_source;"
        "from toolchain.models.options import ModelOptions;"
        "print(read_source('zoo:squeezenet_v1.1', ModelOptions()).sha256)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = read_source("squeezenet_v1.1", ModelOptions())
    assert here.sha256 == other.stdout.strip()
    assert here.sha256 != read_source("squeezenet_v1.1", ModelOptions(weights_seed=1)).sha256


def test_mobilenet_is_made_within_a_second() -> None:
    start = time.thread_time()  # of ours alone
    read_source("zoo:mobilenet", ModelOptions())
    assert time.thread_time() - start < 1


def test_batch_and_shape_are_the_users() -> None:
    assert load_model("squeezenet_v1.1", ModelOptions(batch=2)).inputs[0].shape == (2, 3, 224, 224)
    small = load_model("squeezenet_v1.1", ModelOptions(shapes={"data": (1, 3, 64, 48)}))
    assert small.inputs[0].shape == (1, 3, 64, 48) and small.outputs[0].shape == (1, 1000)


@pytest.mark.parametrize(
    ("height", "width", "inputs"),
    [
        (224, 224, 512 * 49),
        (256, 320, 512 * 49),
        (1000, 600, 512 * 49),
        (64, 416, 512 * 2 * 7),
        (32, 32, 512),
    ],
)
def test_weights_of_vgg_never_grow_with_the_image(height: int, width: int, inputs: int) -> None:
    net = Weightless("vgg-11", (1, 3, height, width), seed=0)
    model = net.finish(ZOO["vgg-11"].define(net))
    assert {t.name: t.dims[1] for t in model.graph.initializer if t.name == "fc6.weight"} == {
        "fc6.weight": inputs
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ModelOptions(shapes={"data": (1, 1, 64, 64)}),
            "--shape data=1,1,64,64: squeezenet_v1.1 takes N,3,H,W",
        ),
        (ModelOptions(shapes={"data": (1, 3, 4, 64, 64)}), "=1,3,4,64,64: squeezenet_v1.1 takes N,3,H,W"),
        (ModelOptions(shapes={"date": (1, 3, 64, 64)}), "no input 'date'.*data"),
        (ModelOptions(shapes={"data": (1, 3, 2, 2)}), "fit together: nothing is left of '"),
        (ModelOptions(batch=3, shapes={"data": (1, 3, 64, 64)}), "--batch 3.*data=1,3,64,64"),
    ],
)
def test_a_shape_that_the_network_cannot_have_is_refused(options: ModelOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_model("zoo:squeezenet_v1.1", options)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("resnet3d-18", (1, 3, 112, 112), "--shape data=1,3,112,112: resnet3d-18 takes N,3,T,H,W"),
        ("resnet3d-18", (1, 1, 16, 112, 112), "takes N,3,T,H,W"),
        ("vgg-11", (1, 3, 16, 64), "zoo:vgg-11: the shapes don't fit together: nothing is left of 'pool5'"),
        ("inception_v3", (1, 3, 74, 74), "fit together: nothing is left of 'mixed7a_1_conv2'"),
    ],
)
def test_refuses_shape_without_remaining_pixels(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_model(name, ModelOptions(shapes={"data": shape}))


@pytest.mark.slow  # compiles without schedules, at 1/50 of their size
@pytest.mark.parametrize("name", [*FAST, "resnet3d-18"])
def test_relax_module_computes_what_onnxruntime_computes(name: str) -> None:
    import tvm
    from tvm import relax

    shape = (1, 3, 2, 16, 16) if name == "resnet3d-18" else (1, 3, 32, 32)
    model = load_model(name, ModelOptions(shapes={"data": shape}))
    inputs = sample_inputs(model, seed=5)
    expected = reference_outputs(model, inputs)["output"]
    executable = tvm.compile(model.module, target=tvm.target.Target({"kind": "llvm"}))
    arrays = [tvm.runtime.tensor(inputs[spec.name]) for spec in model.inputs]
    output = relax.VirtualMachine(executable, tvm.cpu())["main"](*arrays).numpy()
    error = np.abs(np.log(output) - np.log(expected)).max()
    assert error < 1e-3
