"""Who makes vectors: generated code brings its own, for all other code LLVM finds them.

LLVM 22's loop vectoriser makes wrong code of a vector that TVM wrote as a loop over its lanes (a condition
that holds for some lanes only) within another loop: what follows uses the number that the outer loop would
have at the end of its vectorised copy. Of code whose vectors are explicit it finds next to nothing to do.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from toolchain.targets.llvm import without_loop_vectors

EXPLICIT = "toolchain.explicit_vectors"  # attribute of a function


def target_of_code(module: tvm.IRModule, target: tvm.target.Target) -> tvm.target.Target:
    """Return what to compile a module for: with LLVM's loop vectoriser where none of it is generated.

    What a host does for a device has no loops that matter.
    """
    if target.host is not None:
        return target
    functions = [each for each in module.functions.values() if isinstance(each, tirx.PrimFunc)]
    explicit = any(func.attrs is not None and EXPLICIT in func.attrs for func in functions)
    return without_loop_vectors(target) if explicit else target
