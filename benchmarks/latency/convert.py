"""Turn an ONNX file into a peer's own format, with the converter that the peer's wheel brings.

    convert.py ncnn|mnn MODEL.onnx FOLDER SHAPE

Runs in the peers' environment. Leaves FOLDER/model.param and model.bin, or FOLDER/model.mnn.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path


def to_ncnn(model: Path, folder: Path, shape: str) -> None:
    """Convert by pnnx, which keeps float32 when it is told to; a batch of one: ncnn has no batch."""
    program = Path(sysconfig.get_path("purelib")) / "pnnx" / "pnnx"  # its Python wrapper needs torch
    one = ",".join(["1", *shape.split("x")[1:]])
    named = [f"{kind}={folder}/model.{end}" for kind, end in (("ncnnparam", "param"), ("ncnnbin", "bin"))]
    rest = [
        f"{kind}={folder}/rest.{kind}" for kind in ("pnnxparam", "pnnxbin", "pnnxpy", "pnnxonnx", "ncnnpy")
    ]
    argv = [str(program), str(model), f"inputshape=[{one}]f32", "fp16=0", *named, *rest]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    # It ends with 0 whatever happens, and says what it could not convert.
    words = (done.stdout + done.stderr).splitlines()
    refused = [line.strip() for line in words if "unsupported" in line or "error" in line.lower()]
    if done.returncode != 0 or not (folder / "model.bin").is_file():
        raise RuntimeError("; ".join(refused) or f"pnnx ended with {done.returncode}")


def to_mnn(model: Path, folder: Path, _shape: str) -> None:
    """Convert by MNN's own converter; through its command it would report its use to its makers."""
    import _tools

    target = folder / "model.mnn"
    argv = [
        "mnnconvert",
        "-f",
        "ONNX",
        "--modelFile",
        str(model),
        "--MNNModel",
        str(target),
        "--bizCode",
        "-",
    ]
    _tools.mnnconvert(argv)
    if not target.is_file():
        raise RuntimeError("mnnconvert wrote nothing")


if __name__ == "__main__":
    peer, source, into, extents = sys.argv[1:]
    {"ncnn": to_ncnn, "mnn": to_mnn}[peer](Path(source), Path(into), extents)
