"""Makes LLVM use multiply-accumulate by lane on 32-bit Arm cores.

TVM lets LLVM fuse any product with any sum. Cores before VFPv4, such as the Cortex-A9, have no fused
instruction; for them LLVM then also stops forming the chained one, `vmla` (`UseFPVMLx` in its
ARMInstrInfo.td), and code that needs twice the registers spills. Cores with VFPv4 have `vfma`, but A32 has no
form of it that takes one lane of a register (Arm ARM for ARMv7-A, A8.8.317), so that every input is
duplicated into a register of its own first, and spills too. `vmla` by lane is right for all of them.

Neither the target's attributes nor LLVM's options change that; LLVM makes an exception only for functions
with the attribute `minsize`. So functions that multiply and add get this attribute after all optimisation,
when only instruction selection is left; and for them VFPv4 is switched off.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import tvm

from toolchain.lowering.objects.llvm_text import edited

# For the Cortex-A9, LLVM by default expands a vmla that follows another one; forms none whose sum another
# kind of instruction reads, nor the chain before it; and schedules without regard to register pressure (LLVM,
# lib/Target/ARM/ARMFeatures.td: FeatureExpandMLx, FeatureHasVMLxHazards, FeatureUseMISched).
_FEATURES = "-expand-fp-mlx,-vmlx-hazards,+use-misched,-vfp4"
_FUNCTION = re.compile(r"^(define .* #)(\d+)( .*\{\n(?s:.)*?^\})$", re.MULTILINE)
_GROUP = re.compile(r"^attributes #(\d+) = \{ (.*) \}$", re.MULTILINE)
_CHAINED = re.compile(r"@llvm\.fmuladd\.| fmul .*float(?s:.*) f(?:add|sub) .*float")


def form_multiply_accumulate(executable: tvm.runtime.Executable, folder: Path) -> tvm.runtime.Executable:
    """Return the executable with its code for 32-bit Arm generated again; others are returned unchanged.

    Parameters
    ----------
    executable
        Result of `tvm.compile` for a network or for functions; that of a network is modified in place.
    folder
        Folder for a temporary file.
    """
    if executable.mod.kind == "llvm":
        made = _marked(executable.mod, folder)
        return executable if made is executable.mod else tvm.runtime.Executable(made)
    imports = [_marked(module, folder) for module in executable.mod.imports]
    executable.mod.clear_imports()
    for module in imports:
        executable.mod.import_module(module)
    return executable


def _marked(module: tvm.runtime.Module, folder: Path) -> tvm.runtime.Module:
    if module.kind != "llvm" or not _is_32_bit(json.loads(module["_get_target_string"]())):
        return module
    return edited(module, marked, folder)


def _is_32_bit(target: dict[str, object]) -> bool:
    """Whether a target, given as JSON, is a 32-bit Arm core."""
    return str(target.get("mtriple", "")).startswith("armv7")


def marked(text: str) -> str:
    """Return LLVM text with the attributes added to each function that multiplies and adds floats."""
    groups = dict(_GROUP.findall(text))
    first = max(map(int, groups), default=0) + 1
    added: dict[str, int] = {}

    def mark(function: re.Match[str]) -> str:
        head, group, body = function.groups()
        if '"target-cpu"' not in groups[group] or not _CHAINED.search(body):
            return function[0]
        return f"{head}{added.setdefault(group, first + len(added))}{body}"

    text = _FUNCTION.sub(mark, text)
    lines = [f"attributes #{added[group]} = {{ minsize {_featured(groups[group])} }}" for group in added]
    return "\n".join([text, *lines, ""])


def _featured(attributes: str) -> str:
    key = '"target-features"="'
    if key not in attributes:
        return f'{attributes} {key}{_FEATURES}"'
    return re.sub(f'({key}[^"]*)"', rf'\1,{_FEATURES}"', attributes)
