"""Compiles a network's functions from recipes to objects, and writes the objects of the network."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import tvm
from tvm import tirx

from toolchain import tvm_compat
from toolchain.bundles.kernel_names import as_comment
from toolchain.errors import ToolchainError
from toolchain.lowering.kernels.compilers import FunctionCompilers
from toolchain.lowering.kernels.device import compilers_of, device_module
from toolchain.lowering.kernels.part import LibraryPart
from toolchain.lowering.kernels.pickling import pickled
from toolchain.lowering.kernels.recipe import Recipe, Scheduled
from toolchain.lowering.kernels.store import ObjectStore
from toolchain.lowering.objects.export import export_objects
from toolchain.processes.interrupts import uninterrupted
from toolchain.quantities import counted
from toolchain.targets.target import host_of

# Makes the functions that a network calls by its own names; each calls the object that computes it.
#
# Objects are named by the hash of their content, so that networks, and functions of one network, can share
# them. Profiles show the names in the network.

PREFIX = "__tvm_ffi_"  # of the symbols by which TVM's runtime finds functions
_CORE = re.compile(r'"target-cpu"="[^"]*"(?: "target-features"="[^"]*")?')
_TYPES = "ptr, ptr, i32, ptr"  # TVMFFISafeCallType of tvm/ffi/c_api.h: self, arguments, number, result


def entry_library(symbols: Mapping[str, str], target: tvm.target.Target, folder: Path) -> tvm.runtime.Module:
    """Return an LLVM module with a function for each name.

    Parameters
    ----------
    symbols
        Name in the network -> symbol of the object that computes it.
    folder
        Folder for a temporary file.
    """
    empty = tvm.get_global_func("target.build.llvm")(tvm.IRModule({}), target).inspect_source("ll")
    core = _CORE.search(empty)
    text = folder / "entries.ll"
    text.write_text("\n".join([empty, *_lines(symbols, core[0] if core else "")]))
    try:
        with uninterrupted():
            return tvm.runtime.load_module(str(text))
    finally:
        text.unlink()


def _lines(symbols: Mapping[str, str], core: str) -> list[str]:
    group = 1 << 20  # number of the attribute group; TVM's own numbers are small
    lines = [f"attributes #{group} = {{ nounwind {core} }}"]
    # Hidden: the library exports only the network's names.
    lines += [f'declare hidden i32 @"{PREFIX}{symbol}"({_TYPES})' for symbol in sorted({*symbols.values()})]
    for name, symbol in symbols.items():
        lines += [
            f'define dllexport i32 @"{PREFIX}{name}"(ptr %0, ptr %1, i32 %2, ptr %3) #{group} {{',
            f'  %5 = tail call i32 @"{PREFIX}{symbol}"(ptr %0, ptr %1, i32 %2, ptr %3)',
            "  ret i32 %5",
            "}",
        ]
    return lines


_RECIPE = "toolchain.recipe"
_DIGITS = 32
_SYMBOL = re.compile(rf"kernel_[0-9a-f]{{{_DIGITS}}}\b")


class Kernels:
    """The functions of one network and their objects.

    Parameters
    ----------
    compilers
        Compile each function that is not in the cache, as soon as it is submitted.
    progress
        Called with the number of compiled functions and their total.
    """

    def __init__(
        self,
        target: tvm.target.Target,
        compilers: FunctionCompilers,
        store: ObjectStore,
        progress: Callable[[str], None],
    ) -> None:
        self._target, self._compilers, self._store, self._progress = target, compilers, store, progress
        self._made_by = f"{target}\0{compilers_of(target)}\0".encode()
        self._made: dict[str, bytes | None] = {}  # by symbol; None while it is being compiled

    def submit(self, recipe: Recipe) -> tirx.PrimFunc:
        """Start to compile a recipe's function unless it is in the cache; return an empty placeholder.

        Equal recipes give equal functions, which are compiled once.
        """
        data = pickled(recipe)
        digest = hashlib.sha256(self._made_by + data).hexdigest()
        symbol = f"kernel_{digest[:_DIGITS]}"
        if symbol not in self._made:
            self._made[symbol] = self._store.get(symbol)
            if self._made[symbol] is None:
                self._compilers.submit(symbol, data)
        params = [tirx.Var("_", "handle") for _ in range(recipe.arity)]
        return tirx.PrimFunc(params, tirx.Evaluate(0)).with_attr(_RECIPE, symbol)

    def export(self, lowered: tvm.IRModule, folder: Path) -> tuple[Path, ...]:
        """Write the objects of a network into `folder`.

        Parameters
        ----------
        lowered
            The network, ready for TVM's virtual machine.

        Returns
        -------
        tuple
            `lib0.o` with the functions that the network calls, the objects that they call, in the order of
            their names, and `devc.o` with program, constants and kernels.
        """
        symbols = self._submit_all(lowered)
        library = entry_library(symbols, host_of(self._target), folder)
        if self._target.host is None:  # no kernels to embed, so this can run while functions are compiled
            first, *others = self._embedded(lowered, library, folder)
            parts = self._parts(symbols)
        else:
            parts = self._parts(symbols)
            units = [part.unit for part in parts]
            library.import_module(device_module(units, self._target, as_comment(symbols)))
            first, *others = self._embedded(lowered, library, folder)
        files = []
        for number, part in enumerate(parts):
            files.append(folder / f"kernel{number}.o")
            files[-1].write_bytes(part.object)
        return (first, *files, *others)

    def _embedded(self, lowered: tvm.IRModule, library: tvm.runtime.Module, folder: Path) -> tuple[Path, ...]:
        return export_objects(tvm_compat.link_executable(lowered, self._target, library), folder)

    def _parts(self, symbols: Mapping[str, str]) -> list[LibraryPart]:
        """Wait for all functions; return their parts, each once."""
        self._finish(symbols)
        return [LibraryPart.of(self._made[symbol] or b"") for symbol in dict.fromkeys(symbols.values())]

    def _submit_all(self, lowered: tvm.IRModule) -> dict[str, str]:
        """Submit the functions that lowering added; return the symbol of each function, by name."""
        found = {}
        for variable, func in lowered.functions.items():
            if not isinstance(func, tirx.PrimFunc):
                continue
            if func.attrs is None or _RECIPE not in func.attrs:
                func = self.submit(Scheduled(func.without_attr("global_symbol")))
            found[str(variable.name_hint)] = str(func.attrs[_RECIPE])
        return dict(sorted(found.items()))

    def _finish(self, symbols: Mapping[str, str]) -> None:
        """Wait until every function is compiled; errors name the function in the network."""
        self._say()
        try:
            for symbol, data in self._compilers.results():
                self._made[symbol] = data
                self._store.put(symbol, data)
                self._say()
        except ToolchainError as error:
            names = {symbol: f"function {name} of the network" for name, symbol in symbols.items()}
            told = _SYMBOL.sub(lambda found: names.get(found[0], found[0]), error.message)
            raise type(error)(told, error.hint) from error
        self._store.prune()

    def _say(self) -> None:
        done = sum(data is not None for data in self._made.values())
        self._progress(f"compiling {done}/{counted(len(self._made), 'function')}")
