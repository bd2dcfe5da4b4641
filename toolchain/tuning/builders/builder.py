"""Builds candidates into files for a board; the functions of a batch share a library."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from toolchain.errors import ToolchainError
from toolchain.linking.library import link_library
from toolchain.profiles import Profile
from toolchain.tasks.candidate import Candidate, DeviceCode, FileCode
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tuning.builders.compiled import CompiledCandidate, Compilers


class LibraryBuilder:
    """Builds libraries for boards of a class; see `tasks.evaluator.Builder`.

    Candidates are linked on this host, wherever they are compiled, and the ELF headers of the library are
    checked here, before a board gets it. Programs of accelerators, which no linker knows, are written to a
    file as they are; the board checks them.
    """

    def __init__(self, compilers: Compilers, profile: Profile, folder: Path) -> None:
        self._compilers, self._profile, self._folder = compilers, profile, folder
        self._numbers = count()

    def build(self, candidates: Sequence[Candidate]) -> list[BuiltCandidate]:
        """Build candidates and return them in the same order."""
        named = [(candidate.code, f"main_{place}") for place, candidate in enumerate(candidates)]
        compiled = self._compilers.compile(named)
        built = [
            BuiltCandidate(candidate, None, each.failure, each.message, symbol)
            for candidate, each, (_code, symbol) in zip(candidates, compiled, named, strict=True)
        ]
        sound = [place for place, each in enumerate(compiled) if not each.failure]
        for place, linked in zip(
            sound, self._linked([(built[at], compiled[at]) for at in sound]), strict=True
        ):
            built[place] = linked
        return built

    def _linked(self, sound: Sequence[tuple[BuiltCandidate, CompiledCandidate]]) -> list[BuiltCandidate]:
        """Link all candidates into one library; if that fails, each into its own."""
        if not sound:
            return []
        if isinstance(sound[0][0].candidate.code, FileCode):  # a batch is of one task and one target
            return [self._written(built, compiled) for built, compiled in sound]
        library = self._folder / f"{next(self._numbers)}.so"
        try:
            self._link(sound, library)
        except ToolchainError as error:
            if len(sound) > 1:
                return [linked for each in sound for linked in self._linked([each])]
            return [replace(sound[0][0], failure="link", message=str(error))]
        return [replace(built, library=library) for built, _compiled in sound]

    def _written(self, built: BuiltCandidate, compiled: CompiledCandidate) -> BuiltCandidate:
        (data,) = compiled.objects
        file = self._folder / f"{next(self._numbers)}.bin"
        file.write_bytes(data)
        return replace(built, library=file)

    def _link(self, sound: Sequence[tuple[BuiltCandidate, CompiledCandidate]], library: Path) -> None:
        folder = library.with_suffix("")
        folder.mkdir()
        try:
            objects = []
            for place, data in enumerate(_linkable(sound)):
                objects.append(folder / f"{place}.o")
                objects[-1].write_bytes(data)
            link_library(objects, library, self._profile)
        finally:
            shutil.rmtree(folder)


def _linkable(sound: Sequence[tuple[BuiltCandidate, CompiledCandidate]]) -> Sequence[bytes]:
    """Return the contents of the object files of a library."""
    objects = [data for _built, compiled in sound for data in compiled.objects]
    code = sound[0][0].candidate.code  # a batch is of one task and one target
    return code.linkable(objects) if isinstance(code, DeviceCode) else objects
