"""A pack of a small network for the emulated driver, and its one command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.nvidia.building import Target
from benchmarks.nvidia.contenders import OURS
from benchmarks.nvidia.pack import ROOT, TRAVEL, Wanted
from toolchain.models.zoo import ZooNetwork
from toolchain.models.zoo.graph import GraphBuilder
from toolchain.testbeds.cuda import ensure_emulated_cuda

CLASSES = 12


def _define(net: GraphBuilder) -> str:
    x = net.conv_bn_relu("conv1", net.data, 8, kernel=3, stride=2, padding=1)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool", x)), CLASSES)


TINY = ZooNetwork("tiny", "a convolution and a dense layer", 0, 0, _define, (1, 3, 8, 8))

FAKE_PEER = """
import json, os, pathlib, shutil, signal, sys, time
request = json.loads(pathlib.Path(sys.argv[1]).read_text())
if request["mode"] == "crashes":
    os.kill(os.getpid(), signal.SIGSEGV)
if request["mode"] == "hangs":
    pathlib.Path(os.environ["HANGS"]).write_text(str(os.getpid()))
    time.sleep(600)
if request["mode"] == "gives up":
    raise SystemExit("no such mode")
shutil.copyfile(request["expected"], request["output"])
if request["mode"] == "is wrong":
    pathlib.Path(request["output"]).write_bytes(bytes(os.path.getsize(request["expected"])))
pathlib.Path(request["answer"]).write_text(json.dumps({"times_ms": [2.0, 1.0, 3.0], "peak_mib": 7.0}))
"""
MODES = ("crashes", "hangs", "gives up", "is wrong", "compile default")


def wanted(travel: Path = ROOT / TRAVEL, **more: Any) -> Wanted:
    """Return a pack's contents: float32, for an H100 and for the emulated driver; peers that are fakes."""
    ours = [each for each in OURS if each.name == "float32"]
    peers = [
        {"who": "torch", "name": mode, "mode": mode, "format": "", "arithmetic": "float32"} for mode in MODES
    ]
    return Wanted([TINY], (1,), Target("cuda", "sm_90,emulated"), ours, peers, travel, **more)


def environment_of(**more: str) -> dict[str, str]:
    """Return what the pack's command sees: the emulated driver."""
    return {"PATH": os.environ["PATH"], "EDGE_CUDA_DRIVER": str(ensure_emulated_cuda()), **more}


def run(pack: Path, out: Path, *options: str, **environment: str) -> tuple[int, str, Any]:
    """Run the pack's command with the standard library alone; return exit code, words and results."""
    argv = [sys.executable, "-S", "run.py", "--out", str(out), "--samples", "3", "--sample-ms", "0"]
    done = subprocess.run(
        [*argv, *options],
        cwd=pack,
        env=environment_of(**environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr, json.loads(out.read_text()) if out.exists() else None
