"""Makes the library of a bundle that a board loads."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from toolchain.bundles.read import Bundle
from toolchain.errors import UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.linking.library import link_library
from toolchain.profiles import Profile


def library_for(bundle: Bundle, profile: Profile) -> bytes:
    """Return the bundle's library. If the bundle contains objects, link them first: boards have no linker.

    Raises
    ------
    UsageError
        The objects are not a tar of plain files.
    ToolchainError
        They cannot be linked, or the linked library fails its check.
    """
    if bundle.manifest.format == "so":
        return bundle.library
    with scratch_folder() as folder:
        objects = _objects(bundle, folder)
        linked = folder / "library.so"
        link_library(objects, linked, profile)
        return linked.read_bytes()


def _objects(bundle: Bundle, folder: Path) -> list[Path]:
    """Write the tar's files into `folder` under new names; return their paths in the tar's order."""
    objects = []
    try:
        with tarfile.open(fileobj=io.BytesIO(bundle.library), mode="r:") as archive:
            for position, member in enumerate(archive):
                # A sparse file claims any size; what is stored is never more than the archive.
                plain = member.isreg() and not member.issparse() and member.size <= len(bundle.library)
                content = archive.extractfile(member) if plain else None
                if content is None:
                    raise UsageError(
                        f"{bundle.path}: library.tar contains {member.name!r}, which is not a plain file"
                    )
                objects.append(folder / f"{position}.o")
                objects[-1].write_bytes(content.read())
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise UsageError(f"{bundle.path}: library.tar cannot be read: {error}", "build it again") from error
    if not objects:
        raise UsageError(f"{bundle.path}: library.tar is empty", "build it again")
    return objects
