"""Runs a network by PyTorch in one mode: writes its output, and how long an inference takes."""

from __future__ import annotations

import ast
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.nvidia.travel.contest import answer, measured_if_right
from benchmarks.nvidia.travel.torch_graph import module_of


def main() -> None:
    """Read the request, compute and measure, and write output and answer."""
    with torch.inference_mode():
        answer(peer)


def peer(request: dict[str, Any]) -> dict[str, Any]:
    """Return samples and memory of the mode that is asked for; write the output."""
    cuda = request["device"] == "cuda"
    if cuda and not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU")
    allowed = request["arithmetic"] == "tfloat32"
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cudnn.benchmark = True
    dtype = torch.float16 if request["arithmetic"] == "float16" else torch.float32
    layout = torch.channels_last if request["format"] == "channels_last" else torch.contiguous_format
    network = module_of(json.loads(Path(request["graph"]).read_text()), Path(request["weights"]))
    network = network.to(request["device"], dtype).to(memory_format=layout)
    data = read_npy(Path(request["input"])).to(request["device"], dtype).to(memory_format=layout)
    called = compiled(network, request["mode"])
    begun = time.perf_counter()
    called(data).cpu()
    first_s = time.perf_counter() - begun

    def infer() -> torch.Tensor:
        return called(data)

    measured = measured_if_right(request, infer, bytes_of, (run_on_gpu if cuda else run_on_cpu)(infer))
    peak = torch.cuda.max_memory_allocated() / 2**20 if cuda else None
    return {
        **measured,
        "first_s": first_s,
        "peak_mib": peak,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "graphs_skipped": graphs_skipped(),
    }


def compiled(network: Any, mode: str) -> Any:
    """Return what is called for an inference."""
    if mode == "eager":
        return network
    name = mode.split()[-1]
    return torch.compile(network, mode=name, fullgraph=True, dynamic=False)


def graphs_skipped() -> int | None:
    """Return how often PyTorch went without a CUDA graph that it was asked for; None: it does not say."""
    dynamo = sys.modules.get("torch._dynamo.utils")  # not there for eager, and seconds to import
    try:
        return int(dynamo.counters["inductor"]["cudagraph_skips"]) if dynamo else None
    except (AttributeError, KeyError, TypeError):
        return None


def bytes_of(output: torch.Tensor) -> bytes:
    """Return a tensor's numbers as float32; on a GPU, this waits for them."""
    numbers = output.float().cpu().contiguous()
    return bytes(numbers.flatten().view(torch.uint8).tolist())


def read_npy(file: Path) -> torch.Tensor:
    """Return a float32 array of numpy's format 1."""
    data = file.read_bytes()
    begin = 10 + int.from_bytes(data[8:10], "little")
    shape = ast.literal_eval(data[10:begin].decode("latin1"))["shape"]
    return torch.frombuffer(bytearray(data[begin:]), dtype=torch.float32).reshape(shape)


def run_on_gpu(infer: Callable[[], Any]) -> Callable[[int], float]:
    """Return what times so many inferences by CUDA events around all of them, as edge-rt does."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def run(number: int) -> float:
        begin.record()
        for _ in range(number):
            infer()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end))

    return run


def run_on_cpu(infer: Callable[[], Any]) -> Callable[[int], float]:
    """Return what times so many inferences by the clock."""

    def run(number: int) -> float:
        begin = time.perf_counter()
        for _ in range(number):
            infer()
        return (time.perf_counter() - begin) * 1e3

    return run


if __name__ == "__main__":
    main()
