"""Decides whether LLVM's loop vectoriser runs: not for generated code, which has explicit vectors.

LLVM 22's loop vectoriser miscompiles a vector that TVM wrote as a loop over its lanes (because of a condition
that is true for some lanes only) inside another loop: the code after it uses the value that the outer loop's
counter has at the end of its vectorised copy. In code with explicit vectors it finds almost nothing to do.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from toolchain.targets.target import without_loop_vectors

EXPLICIT = "toolchain.explicit_vectors"  # attribute of a function


def target_of_code(module: tvm.IRModule, target: tvm.target.Target) -> tvm.target.Target:
    """Return the target for a module, without LLVM's loop vectoriser if one of its functions is generated.

    Host code for a device keeps the target, since it has no loops that matter.
    """
    if target.host is not None:
        return target
    functions = [each for each in module.functions.values() if isinstance(each, tirx.PrimFunc)]
    explicit = any(func.attrs is not None and EXPLICIT in func.attrs for func in functions)
    return without_loop_vectors(target) if explicit else target
