"""A candidate's code: a convolution, cut in one way, as a program of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.vta.compiling.blob import blob_of
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.dumps.convolution import program_of
from toolchain.vta.layers.knobs import Knobs
from toolchain.vta.layers.layer import ConvShape

if TYPE_CHECKING:
    import tvm

    from toolchain.backends.vta.in_session import UploadedProgram

SEED = 0
"""Of the weights: what a cut computes does not depend on how it is cut."""


@dataclass(frozen=True)
class Cut:
    """A convolution and how it is cut; see `tasks.upload.FileCode`. No compiler and no linker sees it.

    Attributes
    ----------
    driver
        Whose runs are measured on boards: `sim`, `pynq`; empty: the hardware there.
    """

    shape: ConvShape
    knobs: Knobs
    config: VtaConfig
    driver: str = ""

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        """Return the program as one run of bytes.

        Raises
        ------
        ToolchainError
            The cut does not fit.
        """
        del symbol
        return (blob_of(program_of(self.shape, self.config, self.knobs, SEED)),)

    def open(self, session: tvm.rpc.RPCSession, name: str, board: str) -> UploadedProgram:
        """Have a session run the file by the driver."""
        from toolchain.backends.vta.in_session import UploadedProgram

        return UploadedProgram(session, name, board, self.driver, self.config)
