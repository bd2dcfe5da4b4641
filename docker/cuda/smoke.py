"""`python smoke.py sm_87`: a network's kernels as TVM writes them, compiled by NVRTC and by nvcc."""

import sys
from pathlib import Path

import tvm
from tvm import relax, target
from tvm.s_tir import dlight
from tvm.support import nvcc

arch = sys.argv[1]
gpu = target.Target({"kind": "cuda", "arch": arch, "max_threads_per_block": 1024, "host": {"kind": "llvm"}})

builder = relax.BlockBuilder()
data = relax.Var("data", relax.TensorType((4, 8), "float32"))
weights = relax.Var("weights", relax.TensorType((8, 8), "float32"))
with builder.function("main", [data, weights]):
    builder.emit_func_output(builder.emit(relax.op.nn.relu(relax.op.matmul(data, weights))))

with gpu:
    module = relax.get_pipeline("zero")(builder.get())
    module = dlight.ApplyDefaultSchedule(dlight.gpu.Matmul(), dlight.gpu.Fallback())(module)
executable = tvm.compile(module, target=gpu)
executable.export_library("network.so")


def cuda_part(module: tvm.runtime.Module) -> tvm.runtime.Module | None:
    """Return the module of the kernels, which hangs below the one of the host's code."""
    parts = [module] if module.kind == "cuda" else map(cuda_part, module.imports)
    return next((part for part in parts if part is not None), None)


kernels = cuda_part(executable.mod)
if kernels is None:
    sys.exit("TVM made no CUDA kernel")
source = kernels.inspect_source("cuda")  # without a GPU's driver TVM keeps the source
Path("tvm.cu").write_text(source)
for compiler in ("nvrtc", "nvcc"):
    for kind in ("ptx", "cubin"):
        with gpu:
            compiled = nvcc.compile_cuda(source, target_format=kind, compiler=compiler)
        Path(f"tvm-{compiler}.{kind}").write_bytes(bytes(compiled))
