"""Networks in 8-bit integers: ours against onnxruntime on the same quantised file, and against our float32.

    make bench-integers                                                    tables on stdout
    make bench-integers BENCH="--networks resnet-18,bert-small --threads 1"  some of them
    make bench-integers BENCH="--write docs/benchmarks-int8.md"             and into the text
    make bench-integers BENCH="--avx2"     as on a CPU with AVX2 alone: AVX-512 and VNNI are hidden from both

onnxruntime's own tool quantises each network (QDQ, unsigned activations, signed weights by channel), with
random images: the numbers are of speed alone. onnxruntime runs without `session.x64quantprecision`, at its
full speed: where a CPU has no VNNI, its sums of products of bytes saturate. Outputs are therefore compared
with those of a session that has the option, whose integers are exact.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import onnx  # noqa: E402

from benchmarks.families import mobile, pictures, sequences  # noqa: E402
from benchmarks.families.table import Network as Family  # noqa: E402
from benchmarks.latency.hidden import hide  # noqa: E402
from benchmarks.latency.measure import Plan, measure  # noqa: E402
from benchmarks.latency.networks import Network, build, toolchain  # noqa: E402
from benchmarks.latency.process import ContenderError  # noqa: E402
from benchmarks.latency.tables import conditions, table  # noqa: E402
from benchmarks.machine import machine  # noqa: E402
from benchmarks.reporting import add_options, report  # noqa: E402
from benchmarks.words import counts, listed, note  # noqa: E402
from toolchain.files.atomic import write_text  # noqa: E402

PYTHON = ROOT / ".venv/bin/python"
PICTURE = (1, 3, 224, 224)
ZOO = ("resnet-18", "resnet-50", "mobilenet")
OTHERS = {
    each.name: each
    for each in (
        Family("mobilenet-v2", "inverted residuals", mobile.mobilenet_v2, PICTURE),
        Family("mobilenet-v3", "squeeze-and-excite, hard swish", mobile.mobilenet_v3, PICTURE),
        Family("efficientnet-lite0", "5x5 depthwise", mobile.efficientnet_lite0, PICTURE),
        Family("yolo", "detector, SiLU", pictures.yolo, (1, 3, 256, 256)),
        Family("bert-small", "attention over words", sequences.bert_small, (1, 128), tokens=8000),
    )
}
NETWORKS = (*ZOO, *OTHERS)
GOAL = 0.8
GOAL_OF_AVX2 = 1.0
GOAL_OF_FLOAT_ON_AVX2 = 0.8
GOALS_OF_FLOAT = {"resnet-50": 0.35, "mobilenet-v2": 0.45}
"""Largest time in integers relative to float32, on CPUs with dot products."""


def options() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", type=listed(NETWORKS), default=list(NETWORKS), metavar="N,N")
    parser.add_argument("--threads", type=counts, default=[1, 2], metavar="N,N")
    parser.add_argument("--rounds", type=int, default=4, help="blocks of each contender (default 4)")
    parser.add_argument("--runs", type=int, default=50, help="most inferences of a block (default 50)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a block, about (default 0.5)")
    parser.add_argument("--avx2", action="store_true", help="hide AVX-512, VNNI and AMX of this CPU")
    add_options(parser)
    return parser.parse_args()


def prepare(name: str, folder: Path, board: str = "local") -> tuple[Network, Network]:
    """Write a network in float32 and quantised, its input, and build both with our command line.

    The exact output of the quantised one is written beside it (`exact.npy`).
    """
    from onnxruntime.quantization.shape_inference import quant_pre_process

    folder.mkdir()
    given = sample(name)
    np.save(folder / "input.npy", given)
    source, plain, quantised = (folder / f"{each}.onnx" for each in ("source", "plain", "quantised"))
    if name in OTHERS:
        onnx.save(OTHERS[name].model(), str(source))
    else:
        toolchain(folder, "model", "export", f"zoo:{name}", "-o", source)
    quant_pre_process(str(source), str(plain), skip_symbolic_shape=True)  # folds batch norms
    quantise(plain, quantised, given)
    np.save(folder / "exact.npy", exact(quantised, given))
    made = []
    for kind, path in (("float32", plain), ("int8", quantised)):
        of_kind = folder / kind
        of_kind.mkdir()
        shutil.copy(folder / "input.npy", of_kind / "input.npy")
        network = Network(name, 1, of_kind, path, models={"onnxruntime": path})
        try:
            build(network, [path], board)
        except ContenderError as error:
            network.reasons["ours"] = str(error)
        made.append(network)
    return made[0], made[1]


def sample(name: str) -> np.ndarray[Any, Any]:
    """Return a network's seeded input."""
    random = np.random.default_rng(0)
    family = OTHERS.get(name)
    if family is not None and family.tokens:
        return random.integers(0, family.tokens, family.shape)
    return random.standard_normal(PICTURE if family is None else family.shape).astype(np.float32)


def quantise(source: Path, target: Path, given: np.ndarray[Any, Any]) -> None:
    """Quantise a network as onnxruntime's documentation advises for CPUs, calibrated by one input."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    (wanted,) = onnx.load(str(source), load_external_data=False).graph.input

    class Samples(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{wanted.name: given}]

        def get_next(self) -> Mapping[str, Any] | None:
            return self.left.pop() if self.left else None

    quantize_static(
        str(source),
        str(target),
        Samples(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def exact(model: Path, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a quantised network's first output without saturating sums."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: given})[0])


def measured(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return everything that was measured."""
    from toolchain.host import host_cpu_flags, host_profile
    from toolchain.runtime import arch_of, ensure_runtime

    plan = Plan(given.rounds, given.runs, given.seconds)
    dots = sorted({"avx512_vnni", "avx_vnni", "asimddp"} & host_cpu_flags())
    result: dict[str, Any] = {"machine": machine(["onnxruntime"], PYTHON), "plan": vars(plan), "dots": dots}
    result["avx2"] = given.avx2
    hidden = hide(folder, PYTHON) if given.avx2 else {}
    result["rows"] = []
    library = ensure_runtime(arch_of(host_profile()), progress=note).library
    for name in given.networks:
        note(f"{name}: quantising and building")
        floats, integers = prepare(name, folder / name, "x86_64" if given.avx2 else "local")
        right = folder / name / "exact.npy"
        for threads in given.threads:
            row: dict[str, Any] = {"network": name, "batch": 1, "threads": threads}
            names = ["ours", "onnxruntime"]
            how = (names, threads, plan, library, note, PYTHON)
            row["contenders"], row["others"] = measure(integers, *how, right=right, peers_env=hidden)
            row["float32"], _others = measure(floats, *how, peers_env=hidden)
            row["mib"] = {
                kind: of.sizes_mib.get("ours") for kind, of in (("int8", integers), ("float32", floats))
            }
            result["rows"].append(row)
            if given.save:  # what there is counts, should it be cut short
                write_text(given.save, json.dumps(result, indent=1))
        shutil.rmtree(folder / name)
    return result


def markdown(document: Mapping[str, Any]) -> str:
    """Return conditions and a table for each number of threads."""
    dots = ", ".join(document["dots"]) or "none: integers are multiplied as floats"
    parts = [conditions(document), f"Dot products of this CPU, by Linux's names: {dots}."]
    if document.get("avx2"):
        parts[1] = (
            "AVX2 kernels of both, on a CPU whose AVX-512, VNNI and AMX are hidden: ours is built for the "
            "class `x86_64`, onnxruntime gets a `cpuid` without them (benchmarks/latency/hidden.py)."
        )
    aim = GOAL_OF_AVX2 if document.get("avx2") else GOAL
    for threads in sorted({row["threads"] for row in document["rows"]}):
        rows = [row for row in document["rows"] if row["threads"] == threads]
        found = [each for row in rows if (each := ratio(row, "contenders", "ours")) is not None]
        parts.append(f"### {threads} thread{'s' if threads > 1 else ''}")
        if found:
            parts.append(
                f"Geometric mean of ours / onnxruntime: {geometric_mean(found):.2f} (goal {aim:g} each)."
            )
        parts.append(table(HEADER, (cells(row, avx2=bool(document.get("avx2"))) for row in rows)))
    return "\n\n".join(parts) + "\n"


HEADER = (
    "network",
    "ours int8, ms",
    "onnxruntime int8",
    "ours / onnxruntime",
    "ours int8 / ours float32",
    "onnxruntime int8 / float32",
    "off by, of the largest output: ours, onnxruntime int8",
    "peak MiB, int8 and float32",
    "bundle MiB",
)


def time_ms(row: Mapping[str, Any], form: str, who: str) -> float | None:
    """Return the least time of a contender with a form of the network; None if it was not timed.

    With one thread it is the time on a CPU. With several, the clock of a process counts what other threads do
    at ticks only, so it is the time that passed.
    """
    found = row[form].get(who, {}).get("cpu_ms" if row["threads"] == 1 else "min_ms")
    return None if found is None else float(found)


def ratio(
    row: Mapping[str, Any], other: str, who: str, form: str = "contenders", whose: str = "onnxruntime"
) -> float | None:
    """Return the time of `who` with a form of the network by that of `whose` with the `other` form."""
    mine, theirs = time_ms(row, form, who), time_ms(row, other, whose)
    return None if mine is None or theirs is None else mine / theirs


def cells(row: Mapping[str, Any], *, avx2: bool = False) -> list[str]:
    """Return a row of the table; what misses its goal is bold."""
    goal = GOAL_OF_FLOAT_ON_AVX2 if avx2 else GOALS_OF_FLOAT.get(row["network"], 1.0)
    errors = [row["contenders"].get(name, {}).get("error") for name in ("ours", "onnxruntime")]
    peaks = [row[form].get("ours", {}).get("peak_mib") for form in ("contenders", "float32")]
    return [
        row["network"],
        *(number(time_ms(row, "contenders", name)) for name in ("ours", "onnxruntime")),
        judged(ratio(row, "contenders", "ours"), GOAL_OF_AVX2 if avx2 else GOAL),
        judged(ratio(row, "float32", "ours", whose="ours"), goal),
        judged(ratio(row, "float32", "onnxruntime"), 1.0),
        " / ".join("-" if each is None else f"{each:.1g}" for each in errors),
        " / ".join(number(each, 0) for each in peaks),
        " / ".join(number(row["mib"][kind], 1) for kind in ("int8", "float32")),
    ]


def number(value: float | None, digits: int = 2) -> str:
    """Return a number as text."""
    return "-" if value is None else f"{value:.{digits}f}"


def judged(value: float | None, goal: float) -> str:
    """Return a ratio as text, bold above its goal."""
    return f"**{value:.2f}**" if value is not None and value > goal else number(value)


def main() -> None:
    """Measure, then print, keep and write what was asked for."""
    given = options()
    report(given, "benchmarks/int8.py", measured, markdown, "avx2" if given.avx2 else "tables")


if __name__ == "__main__":
    main()
