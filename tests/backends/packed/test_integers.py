"""Products of bytes are computed by dot products, to the last step, and touch nothing but their tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.backends.packed.dot import Dot
from tests.backends.packed.emulated import Called, run
from tests.backends.packed.integers import LAYERS, Quantised, fused
from tests.lowering.executable import virtual_machine
from toolchain.arrays import Array
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.winograd.algorithm import legal
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice
from toolchain.backends.packed.dot_products import PMADDWD, SDOT, VNNI, VNNI_AVX, Products
from toolchain.backends.packed.machine import FLOATS, Machine
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.made import Made
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.backends.packed.pairs import SMULL, Pairs
from toolchain.backends.packed.recognise.convolution import Convolution, convolution
from toolchain.backends.packed.recognise.read import read
from toolchain.host import host_cpu_flags
from toolchain.lowering.graph.integers import with_integers
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.kernels.listing import list_code
from toolchain.profiles import Profile, load_profile
from toolchain.targets.target import target_for

X86 = load_profile("x86_64")
RK3399 = load_profile("rk3399")
RASPBERRYPI5 = load_profile("raspberrypi5")
PAIRED = tuple(replace(layer, least=SMULL.least) for layer in LAYERS)
# The loops around the instruction, with products that every CPU can compute.
WRITTEN = replace(machines.AVX2.of(1), products=(replace(VNNI, code=Dot), *FLOATS))


@dataclass(frozen=True)
class Extreme(Quantised):
    """A layer whose products are as large as they can be."""

    inputs_all: int = 0

    @property
    def weight(self) -> Array:
        """The weight: the smallest number everywhere."""
        return np.full(super().weight.shape, self.least, np.float32)

    def inputs(self) -> Array:
        """Return an input of one number."""
        return np.full(super().inputs().shape, self.inputs_all + 128, np.uint8)


def having(flag: str) -> pytest.MarkDecorator:
    """Skip a test on hosts whose CPU lacks a feature; qemu has none of those asked for here."""
    return pytest.mark.skipif(flag not in host_cpu_flags(), reason=f"this CPU has no {flag}")


def with_vnni(level: str, feature: str) -> Profile:
    """Return the class of hosts whose CPU has VNNI, of AVX-512 or in its VEX form."""
    cluster = X86.clusters[0].model_copy(update={"cpu": level})
    return X86.model_copy(update={"clusters": (cluster,), "features": (f"+{feature}",)})


def functions(layer: Quantised, machine: Machine, profile: Profile) -> Made:
    """Return the layer's own function: the one with a contraction."""
    signed = machine.products_of("int8").depth > 1
    module = fused(layer, signed, target_for(profile).target, machine.least)
    made = rewrite(module, Choices(machine))
    (found,) = (each for name, each in made.made.items() if "conv" in name or "matmul" in name)
    assert made.rules[next(name for name in made.made if made.made[name] is found)] in (
        "direct",
        "depthwise",
        "dense",
        "winograd",
    )
    return found


def called(layer: Quantised, made: Made) -> tuple[Called, Array]:
    """Return a call of the layer's function, and its output as it must be, packed."""
    x, outputs = layer.inputs(), layer.expected(layer.inputs())
    kind = made.parameters[0].dtype
    given = {"uint8": x, "int8": (x.astype(np.int16) - 128).astype(np.int8)}
    given["float32"] = x.astype(np.float32) - layer.zero  # by another function
    arguments: list[Array] = []
    for parameter in made.parameters[:-1]:
        value = parameter.value
        if value is None:
            value = given[kind]
            value = value if parameter.layout is None else parameter.layout.pack(value)
        arguments.append(np.asarray(value))
    out = made.parameters[-1]
    due = outputs if out.layout is None else out.layout.pack(outputs)
    return Called(str(layer), made.func, [*arguments, np.zeros_like(due)]), due


def check(layers: Sequence[Quantised], machine: Machine, profile: Profile, folder: Path) -> None:
    """Run the functions of layers between pages that they must not touch."""
    pairs = [called(layer, functions(layer, machine, profile)) for layer in layers]
    for layer, (_call, due), results in zip(
        layers, pairs, run([call for call, _due in pairs], profile, folder), strict=True
    ):
        for result in results:
            assert np.array_equal(result, due), layer


@pytest.mark.slow
def test_arms_dot_products_compute_every_kind_of_layer(tmp_path: Path) -> None:
    machine = machines.machine_of(target_for(RASPBERRYPI5), integers=True)
    assert SDOT in machine.products
    check(LAYERS, machine, RASPBERRYPI5, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "cluster"), [("rk3399", "cortex-a72"), ("rk3399", "cortex-a53"), ("pynq", "cortex-a9")]
)
def test_arm_without_dot_products_multiplies_pairs_in_every_kind_of_layer(
    board: str, cluster: str, tmp_path: Path
) -> None:
    profile = load_profile(board)
    machine = machines.machine_of(target_for(profile, cluster), integers=True)
    assert issubclass(machine.products_of("int8").code, Pairs)
    check(PAIRED, machine, profile, tmp_path)


@pytest.mark.slow
def test_a_layer_whose_products_do_not_fit_16_bits_stays_in_floats_and_is_right(tmp_path: Path) -> None:
    layer, machine = LAYERS[3], machines.machine_of(target_for(RK3399), integers=True)
    assert layer.weight.min() == -128
    made = functions(layer, machine, RK3399)
    assert "sadalp" not in list_code(made.func, target_for(RK3399).target, "assembly")
    check([layer], machine, RK3399, tmp_path)


def test_weights_that_overflow_are_left_alone_wherever_they_come_from() -> None:
    layer, machine = LAYERS[3], machines.machine_of(target_for(RK3399), integers=True)
    target = target_for(RK3399).target
    anywhere = fused(layer, True, target, None)  # in integers, although the machine cannot multiply them
    assert "direct" not in rewrite(anywhere, Choices(machine)).rules.values()
    fitting = fused(replace(layer, least=SMULL.least), True, target, None)
    assert "direct" in rewrite(fitting, Choices(machine)).rules.values()


@pytest.mark.slow
@pytest.mark.parametrize("value", [-128, 127])
@pytest.mark.parametrize("place", [4, 7, 11], ids=["direct", "depthwise", "dense"])
def test_the_largest_products_that_fit_do(place: int, value: int, tmp_path: Path) -> None:
    layer = replace(Extreme(**asdict(LAYERS[place])), least=-127, inputs_all=value)
    machine = machines.machine_of(target_for(RK3399), integers=True)
    check([layer], machine, RK3399, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "feature", "product"),
    [
        pytest.param("x86-64-v4", "avx512vnni", VNNI, marks=having("avx512_vnni")),
        pytest.param("x86-64-v3", "avxvnni", VNNI_AVX, marks=having("avx_vnni")),
    ],
)
def test_vnni_computes_every_kind_of_layer(
    level: str, feature: str, product: Products, tmp_path: Path
) -> None:
    profile = with_vnni(level, feature)
    machine = machines.machine_of(target_for(profile), integers=True)
    assert product in machine.products
    check(LAYERS, machine, profile, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "level", ["x86-64-v2", "x86-64-v3", pytest.param("x86-64-v4", marks=having("avx512bw"))]
)
def test_pairs_of_products_compute_every_kind_of_layer_but_depthwise(level: str, tmp_path: Path) -> None:
    cluster = X86.clusters[0].model_copy(update={"cpu": level})
    profile = X86.model_copy(update={"clusters": (cluster,)})
    machine = machines.machine_of(target_for(profile), integers=True)
    assert PMADDWD in machine.products and not machine.channels_of_bytes
    check([each for each in LAYERS if each.groups != each.ci], machine, profile, tmp_path)


# Images of an even and an odd size, channels that fill no block, and the largest sums of either sign.
IN_16_BITS = (
    Quantised(16, 24, (6, 14), 3, pad=1, zero=255),
    Quantised(20, 33, (9, 11), 3, pad=1, zero=3),
    Quantised(32, 16, (7, 7), 3, zero=131),
    Extreme(64, 16, (6, 6), 3, pad=1, least=-128, inputs_all=127),
    Extreme(64, 16, (6, 6), 3, pad=1, least=127, inputs_all=127),
)


@pytest.mark.slow
@pytest.mark.parametrize("layer", IN_16_BITS, ids=str)
def test_winograd_of_widened_bytes_is_exact(layer: Quantised) -> None:
    machine = machines.machine_of(target_for(X86), integers=True)
    target = target_for(X86).target
    module = fused(layer, False, target)
    (name,) = (name for name in rewrite(module, Choices(machine)).made if "conv" in name)
    choices = [
        WinogradChoice(1, 5, 2, (2, 2)),
        WinogradChoice(1, 8, tile=(2, 2), order="channels"),
        WinogradChoice(1, 4, 1, (1, 2)),
    ]
    for choice in choices:
        assert legal(choice, contraction(layer), machine)
        made = rewrite(module, Choices(machine, decided={name: choice}))
        result = virtual_machine(made.module, target)["main"](tvm.runtime.tensor(layer.inputs()))
        assert made.rules[name] == "winograd"
        assert np.array_equal(result.numpy(), layer.expected(layer.inputs())), choice


def contraction(layer: Quantised) -> Convolution:
    """Return a layer's convolution."""
    read_of = [
        read(func)
        for func in fused(layer, False, target_for(X86).target).functions.values()
        if isinstance(func, tvm.tirx.PrimFunc)
    ]
    return next(conv for conv in map(convolution, read_of) if conv is not None)


def test_winograd_of_bytes_needs_sums_that_fit() -> None:
    machine = machines.machine_of(target_for(X86), integers=True)
    conv = replace(contraction(IN_16_BITS[0]), ci=1824)
    choice = WinogradChoice(1, 4, 2, (2, 2))
    assert legal(choice, conv, machine)  # 255 * 128 * 9 * 1824 * 4 < 2 ** 31
    assert not legal(choice, replace(conv, ci=1832), machine)
    assert not legal(replace(choice, tile=(4, 4)), conv, machine)  # its transforms are no sums of integers


@pytest.mark.slow
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_inputs_are_widened_outside_of_the_hot_loops(level: str, kernel: int) -> None:
    cluster = X86.clusters[0].model_copy(update={"cpu": level})
    profile = X86.model_copy(update={"clusters": (cluster,)})
    target = target_for(profile)
    layer = Quantised(64, 64, (8, 28), kernel, pad=kernel // 2)
    module = fused(layer, False, target.target)
    machine = machines.machine_of(target, integers=True)
    made = rewrite(module, Choices(machine, winograd=False)).made
    (found,) = (each for name, each in made.items() if "conv" in name)
    lines = [line.strip() for line in list_code(found.func, target.target, "assembly").splitlines()]
    first = next(number for number, line in enumerate(lines) if "pmaddwd" in line)
    start = max(number for number in range(first) if lines[number].startswith(".LBB"))
    end = next(number for number in range(first, len(lines)) if lines[number].startswith("j"))
    body = [line for line in lines[start + 1 : end + 1] if line and not line.startswith((".", "#"))]
    products = sum("pmaddwd" in line for line in body)
    assert products >= 8 and not any("pmovzx" in line or "movzw" in line for line in body)
    assert len(body) <= 3.2 * products if level == "x86-64-v3" else len(body) <= 4 * products


@pytest.mark.slow
@pytest.mark.parametrize("layer", [each for each in LAYERS if each.groups != each.ci], ids=str)
def test_layers_are_right_with_unsigned_inputs_on_every_cpu(layer: Quantised) -> None:
    target = target_for(X86).target
    made = rewrite(fused(layer, False, target), Choices(WRITTEN))
    assert {"direct", "dense"} & set(made.rules.values())
    result = virtual_machine(made.module, target)["main"](tvm.runtime.tensor(layer.inputs()))
    assert np.array_equal(result.numpy(), layer.expected(layer.inputs()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "instruction", "rounds"),
    [
        (LAYERS[1], "sdot", "frint"),
        (LAYERS[6], "sdot", "frint"),
        (PAIRED[1], "sadalp", "frint"),
        (PAIRED[6], "smlal", "frint"),
    ],
    ids=["direct", "depthwise", "direct in pairs", "depthwise in pairs"],
)
def test_the_instruction_is_used_and_nothing_else_rounds(
    layer: Quantised, instruction: str, rounds: str
) -> None:
    profile = RK3399 if layer in PAIRED else RASPBERRYPI5
    machine = machines.machine_of(target_for(profile), integers=True)
    made = functions(layer, machine, profile)
    code = list_code(made.func, target_for(profile).target, "assembly")
    assert instruction in code and rounds not in code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "cluster", "kernel", "most"),
    [
        ("rk3399", "cortex-a72", 3, 0.25),
        ("rk3399", "cortex-a72", 1, 0.26),
        ("rk3399", "cortex-a53", 3, 0.26),
        ("pynq", "cortex-a9", 3, 0.33),
    ],
)
def test_sums_in_pairs_stay_in_registers(board: str, cluster: str, kernel: int, most: float) -> None:
    profile = load_profile(board)
    target = target_for(profile, cluster)
    layer = Quantised(64, 64, (8, 28), kernel, pad=kernel // 2, least=-127)
    made = functions(layer, machines.machine_of(target, integers=True), profile)
    instructions = innermost(list_code(made.func, target.target, "assembly"))
    products = 8 * sum(
        each.lstrip("v").startswith(("smull", "smlal", "mull", "mlal")) for each in instructions
    )
    assert products and not any(re.search(r"\bsp\b", each) for each in instructions)
    assert len(instructions) <= most * products


def innermost(code: str) -> list[str]:
    """Return the instructions of the loop with the first products."""
    lines = [line.strip() for line in code.splitlines()]
    first = next(
        number for number, line in enumerate(lines) if line.lstrip("v").startswith(("smull", "mull"))
    )
    start = max(number for number in range(first) if lines[number].startswith(".LBB"))
    end = next(number for number in range(first, len(lines)) if lines[number].startswith(("b.ne", "bne")))
    return [line for line in lines[start + 1 : end + 1] if line and not line.startswith((".", "@", "/", ";"))]


@pytest.mark.slow
def test_an_image_that_two_layers_pad_with_different_numbers_is_right_for_both() -> None:
    weight = np.random.default_rng(5).integers(-127, 128, (16, 16, 3, 3)).astype("f4")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 16, 6, 6), "uint8"))
    with builder.function("main", [x]):
        with builder.dataflow():
            floats = builder.emit(relax.op.astype(x, "float32"))
            sums = []
            for zero in (5.0, 9.0):
                centred = builder.emit(relax.op.subtract(floats, relax.const(zero)))
                call = relax.op.nn.conv2d(centred, relax.const(weight), padding=[1, 1, 1, 1])
                sums.append(builder.emit(relax.op.nn.relu(builder.emit(call))))
            out = builder.emit_output(builder.emit(relax.op.subtract(*sums)))
        builder.emit_func_output(out)
    target, module = target_for(X86).target, builder.get()
    image = np.random.default_rng(6).integers(0, 256, (1, 16, 6, 6)).astype("uint8")
    outputs = []
    for each in (module, with_integers(module, {"uint8": "int8"})):
        made = rewrite(fuse(each, target), Choices(WRITTEN, winograd=False))
        outputs.append(virtual_machine(made.module, target)["main"](tvm.runtime.tensor(image)).numpy())
    assert "int32" in str(made.module) and "direct" in made.rules.values()
    assert np.array_equal(*outputs)
