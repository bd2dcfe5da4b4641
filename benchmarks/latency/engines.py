"""The engines, each behind one small class: load a network, take an input, run, hand out the outputs.

Runs in a contender's process (contender.py), which has numpy and the peers, and never the toolchain. All
compute in float32, with as many threads as they are given; the CPUs they may use were chosen before.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Engine(Protocol):
    """A loaded network with its input set."""

    def run(self) -> None:
        """Compute one batch."""

    def output(self) -> Array:
        """Return the first output of the last run."""


class _Tensor(ctypes.Structure):  # edge_tensor of edge_rt.h
    _fields_ = (
        ("dtype", c_char_p),
        ("ndim", c_int),
        ("shape", POINTER(c_int64)),
        ("data", c_void_p),
        ("bytes", c_size_t),
    )


class _Options(ctypes.Structure):  # edge_options
    _fields_ = (
        ("size", c_size_t),
        ("cluster", c_char_p),
        ("requires_", c_char_p),
        ("threads", c_int),
        ("spin_us", c_int),
        ("device", c_char_p),
        ("device_folder", c_char_p),
        ("pad", c_size_t),
    )


class Ours:
    """A library of ours in `libedge.so`, the core of edge-rt, whose path EDGE_LIBRARY gives."""

    def __init__(self, model: Path, given: Array, threads: int) -> None:
        edge = ctypes.CDLL(os.environ["EDGE_LIBRARY"])
        edge.edge_open.restype = c_void_p
        edge.edge_open.argtypes = [c_char_p, POINTER(_Options)]
        edge.edge_set_input.argtypes = [c_void_p, c_int, POINTER(_Tensor)]
        edge.edge_run.argtypes = [c_void_p]
        edge.edge_output.argtypes = [c_void_p, c_int, POINTER(_Tensor)]
        edge.edge_last_error.restype = c_char_p
        self._edge = edge
        options = _Options(ctypes.sizeof(_Options), threads=threads)
        self._network = edge.edge_open(os.fsencode(model), ctypes.byref(options))
        self._check(0 if self._network else 1)
        extents = (c_int64 * given.ndim)(*given.shape)
        tensor = _Tensor(given.dtype.name.encode(), given.ndim, extents, given.ctypes.data, given.nbytes)
        self._check(edge.edge_set_input(self._network, 0, ctypes.byref(tensor)))

    def _check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(self._edge.edge_last_error().decode())

    def run(self) -> None:
        self._check(self._edge.edge_run(self._network))

    def output(self) -> Array:
        found = _Tensor()
        self._check(self._edge.edge_output(self._network, 0, ctypes.byref(found)))
        raw = ctypes.string_at(found.data, found.bytes)
        return np.frombuffer(raw, found.dtype.decode()).reshape(found.shape[: found.ndim])


class OnnxRuntime:
    """onnxruntime, with input and output bound: nothing is copied in or out."""

    def __init__(self, model: Path, given: Array, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._session, self._binding, self._input = session, session.io_binding(), given
        self._binding.bind_cpu_input(session.get_inputs()[0].name, given)
        self._binding.bind_output(session.get_outputs()[0].name)

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def output(self) -> Array:
        return np.asarray(self._binding.copy_outputs_to_cpu()[0])


class OpenVino:
    """OpenVINO; without the hint it would compute in bfloat16 where the CPU can."""

    def __init__(self, model: Path, given: Array, threads: int) -> None:
        import openvino

        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # the process is
        }
        compiled = openvino.Core().compile_model(str(model), "CPU", settings)
        self._request, self._input = compiled.create_infer_request(), given
        self._request.set_input_tensor(openvino.Tensor(given, shared_memory=True))

    def run(self) -> None:
        self._request.infer()

    def output(self) -> Array:
        return np.array(self._request.get_output_tensor(0).data)


class Ncnn:
    """ncnn, from files that pnnx made; it has no batch: images of a batch run one after another."""

    def __init__(self, model: Path, given: Array, threads: int) -> None:
        import ncnn

        self._net = ncnn.Net()
        options = self._net.opt
        options.num_threads = threads
        options.use_vulkan_compute = options.use_bf16_storage = False
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
        weights = model.with_suffix(".bin")
        if self._net.load_param(str(model)) != 0 or self._net.load_model(str(weights)) != 0:
            raise RuntimeError(f"ncnn cannot load {model.name}")
        self._images = [ncnn.Mat(image).clone() for image in given]
        self._outputs: list[Any] = []

    def run(self) -> None:
        self._outputs = []
        for image in self._images:
            extractor = self._net.create_extractor()
            extractor.input("in0", image)
            status, output = extractor.extract("out0")
            if status != 0:
                raise RuntimeError(f"ncnn ended with {status}")
            self._outputs.append(output)

    def output(self) -> Array:
        return np.stack([np.array(output) for output in self._outputs])


class Mnn:
    """MNN's module interface, from a file that its converter made."""

    def __init__(self, model: Path, given: Array, threads: int) -> None:
        import MNN
        import MNN.nn

        settings = {"backend": "CPU", "numThread": threads, "precision": "high"}
        self._runtime = MNN.nn.create_runtime_manager((settings,))
        self._module = MNN.nn.load_module_from_file(str(model), [], [], runtime_manager=self._runtime)
        self._input = MNN.expr.const(given, list(given.shape), MNN.expr.NCHW, MNN.expr.float)
        self._output: Any = None

    def run(self) -> None:
        # It computes when it is read, and not before.
        self._output = self._module.forward(self._input).read()

    def output(self) -> Array:
        return np.array(self._output)


ENGINES: dict[str, type[Ours | OnnxRuntime | OpenVino | Ncnn | Mnn]] = {
    "ours": Ours,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "ncnn": Ncnn,
    "mnn": Mnn,
}
