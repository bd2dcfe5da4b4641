"""How far packed code without records is from onnxruntime on every network of the zoo: a table on stdout.

    .venv/bin/python benchmarks/accuracy.py [--full] [NETWORK ...]

Images are small (96 x 96, four frames; vgg and inception need more) unless `--full`. Errors are those of
`toolchain verify`: max|y - r| / max|r|, of log-probabilities where an output ends in a softmax.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import tvm

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.lowering.executable import virtual_machine  # noqa: E402
from toolchain.backends.packed.algorithms.policy import default_choice  # noqa: E402
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice  # noqa: E402
from toolchain.backends.packed.machine import Machine  # noqa: E402
from toolchain.backends.packed.machines import machine_of  # noqa: E402
from toolchain.backends.packed.network.choices import Choices  # noqa: E402
from toolchain.backends.packed.network.rewrite import rewrite  # noqa: E402
from toolchain.backends.packed.recognise.contraction import recognise  # noqa: E402
from toolchain.backends.packed.recognise.convolution import Convolution  # noqa: E402
from toolchain.backends.packed.recognise.read import UnreadableError, read  # noqa: E402
from toolchain.lowering.functions.tasks import FusedTask, extract_tasks  # noqa: E402
from toolchain.lowering.graph.pipeline import fuse  # noqa: E402
from toolchain.measuring.numerics import TOLERANCE, Tolerance, output_error  # noqa: E402
from toolchain.models.judging.reference import reference_outputs, sample_inputs  # noqa: E402
from toolchain.models.load import Model, load_model  # noqa: E402
from toolchain.models.options import ModelOptions  # noqa: E402
from toolchain.models.zoo import ZOO  # noqa: E402
from toolchain.profiles import load_profile  # noqa: E402
from toolchain.targets.target import target_for  # noqa: E402

# Networks whose layers do not fit a smaller image, and video.
_SIZES = {"inception_v3": (1, 3, 139, 139), "resnet3d-18": (1, 3, 4, 64, 64)}


def shape_of(name: str, full: bool) -> tuple[int, ...]:
    """Return the input's shape: the network's own, or a small one that it takes."""
    own = ZOO[name].shape
    return own if full or name.startswith("vgg") else _SIZES.get(name, (1, 3, 96, 96))


def error(model: Model, winograd: bool) -> tuple[float, Counter[str]]:
    """Return the largest error of any output, and how many convolutions got which algorithm."""
    made_for = target_for(load_profile("x86_64"))
    machine = machine_of(made_for)
    fused = fuse(model.module, made_for.target)
    tasks = extract_tasks(fused)
    scheduled = rewrite(fused, Choices(machine, winograd)).module
    vm = virtual_machine(scheduled, made_for.target)
    inputs = sample_inputs(model, 0)
    result = vm["main"](*(tvm.runtime.tensor(value) for value in inputs.values()))
    outputs = [result] if hasattr(result, "numpy") else list(result)
    found = 0.0
    for (name, reference), output in zip(reference_outputs(model, inputs).items(), outputs, strict=True):
        report = output_error(
            name, output.numpy(), reference, Tolerance(TOLERANCE["float32"]), name in model.softmax_outputs
        )
        found = max(found, np.inf if report.max_rel_error is None else report.max_rel_error)
    return found, _algorithms(tasks, machine, winograd)


def main(arguments: list[str]) -> None:
    """Print the table."""
    full = "--full" in arguments
    names = [name for name in arguments if name != "--full"] or list(ZOO)
    print("| network | input | error without winograd | with | tolerance / error | convolutions |")
    print("|---|---|---|---|---|---|")
    for name in names:
        shape = shape_of(name, full)
        model = load_model(f"zoo:{name}", ModelOptions(shapes={"data": shape}))
        plain, _counts = error(model, False)
        fast, counts = error(model, True)
        layers = ", ".join(f"{count} {what}" for what, count in counts.most_common())
        size = " x ".join(map(str, shape))
        print(
            f"| {name} | {size} | {plain:.1e} | {fast:.1e} | {TOLERANCE['float32'] / fast:.0f} | {layers} |",
            flush=True,
        )


def _algorithms(tasks: list[FusedTask], machine: Machine, winograd: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    for task in tasks:
        try:
            contraction = recognise(read(task.func))
        except UnreadableError:
            continue
        if not isinstance(contraction, Convolution):
            continue
        choice = default_choice(contraction, machine, winograd)
        name = choice.algorithm
        if isinstance(choice, WinogradChoice):
            name = f"F({'x'.join(map(str, choice.tile))}, {'x'.join(map(str, contraction.kernel))})"
        counts[name] += task.weight
    return counts


if __name__ == "__main__":
    main(sys.argv[1:])
