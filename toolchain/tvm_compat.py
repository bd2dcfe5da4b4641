"""Everything that touches a private or shaky TVM name. Checked with apache-tvm 0.27.0.post1."""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import tvm
from tvm import relax
from tvm.relax import _ffi_api as relax_api
from tvm.relax import vm_build
from tvm.relax.frontend.onnx import onnx_frontend
from tvm.tirx.build import split_host_device_mods
from tvm_ffi import structural


class NodeImportError(Exception):
    """TVM could not convert one ONNX node.

    Attributes
    ----------
    operator, node
        Its type and its name.
    """

    def __init__(self, operator: str, node: str, reason: Exception) -> None:
        super().__init__(str(reason))
        self.operator = operator
        self.node = node


def onnx_converts(operator: str, opset: int) -> bool:
    """Tell whether TVM's ONNX importer has a converter for `operator` at `opset`."""
    if operator == "If":  # converted by the importer itself, not by its table
        return True
    converter = onnx_frontend._get_convert_map().get(operator)
    if converter is None:
        return False
    try:
        converter.get_converter(opset)
    except Exception:  # NotImplementedError; the method fails in other ways where no version fits
        return False
    return True


# An operator's inputs and attributes -> what it computes.
Converter = Callable[[list[relax.Expr], dict[str, Any]], relax.Expr]


class _Importer(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer with converters of ours, telling which node it failed at."""

    converters: Mapping[str, Converter]

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """Ours are not in its table; `importer.check_supported` asks before."""

    def _parse_value_proto(self, value_proto: Any) -> Any:
        outputs = getattr(value_proto, "output", ())  # a node, then, and it may lack a name
        return super()._parse_value_proto(value_proto) or next(iter(outputs), "")

    def _convert_operator(self, op_name: str, inputs: Any, attrs: Any, opset: int) -> Any:
        own = self.converters.get(op_name)
        try:
            if own is not None:
                return self.bb.normalize(own(list(inputs), attrs))
            return super()._convert_operator(op_name, inputs, attrs, opset)
        except Exception as error:
            raise NodeImportError(op_name, attrs["tvm_custom"]["name"], error) from error


def import_onnx(graph: Any, opset: int, converters: Mapping[str, Converter]) -> tvm.ir.IRModule:
    """Import an ONNX GraphProto to Relax; `main` takes the true inputs, weights are constants.

    Parameters
    ----------
    converters
        By operator, instead of TVM's.

    Raises
    ------
    NodeImportError
        A node could not be converted.
    """
    importer = _Importer(shape_dict={}, dtype_dict="float32")
    importer.converters = converters
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # it prints what it fails at
        warnings.simplefilter("ignore")
        try:
            return importer.from_onnx(graph, opset)
        except Exception:
            with contextlib.suppress(Exception):  # else its destructor warns about open blocks on stderr
                while True:
                    relax_api.BlockBuilderEndBlock(importer.bb)
            raise


_INTRINSICS = "tvm.s_tir.tensor_intrin"
_intrinsics_lock = threading.Lock()


@contextlib.contextmanager
def without_tensor_intrinsics() -> Iterator[None]:
    """Keep `TuneContext` from importing the tensor intrinsics of every device: 10 s, for int8 only.

    An empty module stands for theirs until the end of the block; what was imported before stays.
    """
    with _intrinsics_lock:
        planted = sys.modules.setdefault(_INTRINSICS, empty := types.ModuleType(_INTRINSICS)) is empty
        try:
            yield
        finally:
            if planted:
                del sys.modules[_INTRINSICS]


def train_cost_model() -> float:
    """Train MetaSchedule's xgboost model on a sum of features; return its correlation with the truth.

    It reaches for private names of xgboost while it trains, so that only training tells whether
    the two versions go together. Near 1 when they do.
    """
    import numpy as np
    from tvm.s_tir.meta_schedule.cost_model.xgb_model import XGBConfig, XGBModel

    features = [np.random.default_rng(seed).random((3, 8), dtype="float32") for seed in range(64)]
    scores = np.array([rows.sum() for rows in features])
    # Threads that wait for each other on a busy machine would compute for seconds.
    model = XGBModel(config=XGBConfig(nthread=1))
    model._train(features, scores / scores.max())
    return float(np.corrcoef(model._predict(features), scores)[0, 1])


def lower_functions(
    module: tvm.IRModule, target: tvm.target.Target
) -> tuple[tvm.IRModule, tvm.IRModule | None]:
    """Lower TensorIR functions as `tvm.compile` does, without an entry point.

    To TVM the one function of a module is its entry point, and gets a second symbol, `main`. Objects that
    each have one could not be told apart.

    Returns
    -------
    tuple
        What LLVM code is made of, and what kernels of the target's device are made of, if there are any.
    """
    passes, finalize, finalize_device = tvm.tirx.get_default_tir_pipeline(target)
    bound = tvm.tirx.transform.BindTarget(target.with_host(target.host or target))(module)
    host, device = split_host_device(passes(bound))
    lowered = finalize()(host)
    plain = {name: func.without_attr("tirx.is_entry_func") for name, func in lowered.functions.items()}
    return tvm.IRModule(plain, attrs=lowered.attrs), device and finalize_device()(device)


def split_host_device(module: tvm.IRModule) -> tuple[tvm.IRModule, tvm.IRModule | None]:
    """Return what the host runs of lowered functions, and what a device does, if there is one."""
    host, devices = split_host_device_mods(module)
    if len(devices) > 1:
        raise ValueError(f"functions for several devices: {', '.join(map(str, devices))}")
    return host, next(iter(devices.values()), None)


def link_executable(
    module: tvm.IRModule, target: tvm.target.Target, library: tvm.runtime.Module | None
) -> tvm.runtime.Executable:
    """Make a Relax executable of lowered Relax functions; `library` has what they call, if anything."""
    builder = relax.ExecBuilder()
    vm_build._vmcodegen(builder, module)
    constants = dict((module.attrs or {}).get("const_name_to_constant", {}))
    return tvm.runtime.Executable(vm_build._ffi_api.VMLink(builder, target, library, [], constants))


_place_of = functools.cache(functools.partial(structural._callback_type_to_type_index, api_name="mutated"))


N = TypeVar("N")


def mutated(value: N, callbacks: Sequence[tuple[type, Callable[[Any, Any], Any]]]) -> N:
    """Return what `tvm_ffi.structural_mutate` makes of a value.

    That one looks at the signature of every callback at every call, which takes longer than the rest.
    """
    entries = [(_place_of(kind), function, False) for kind, function in callbacks]
    made: N = structural._ffi_api.StructuralMutate(value, entries)
    return made


def walked(value: Any, callbacks: Sequence[tuple[type, Callable[[Any], Any]]]) -> None:
    """Call back for every part of a value, as `tvm_ffi.structural_walk` does, children first.

    That one looks types up by their names at every call, which takes as long as a short walk.
    """
    entries = [(_place_of(kind), function) for kind, function in callbacks]
    structural._ffi_api.StructuralWalk(value, entries, [], int(structural.WalkOrder.POSTORDER))
