"""The code of a candidate: a convolution, cut in one way, as a program of its own."""

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
"""Seed of the weights, which do not affect how well a cut performs."""


@dataclass(frozen=True)
class Cut:
    """A convolution and its cut; see `tasks.upload.FileCode`. Neither compiler nor linker is used.

    Attributes
    ----------
    driver
        Driver whose runs boards measure: `sim` or `pynq`; empty for the board's hardware.
    """

    shape: ConvShape
    knobs: Knobs
    config: VtaConfig
    driver: str = ""

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        """Return the program as one block of bytes.

        Raises
        ------
        ToolchainError
            The cut does not fit the design.
        """
        del symbol
        return (blob_of(program_of(self.shape, self.config, self.knobs, SEED)),)

    def open(self, session: tvm.rpc.RPCSession, name: str, board: str) -> UploadedProgram:
        """Return the program, ready to run in a session with the driver."""
        from toolchain.backends.vta.in_session import UploadedProgram

        return UploadedProgram(session, name, board, self.driver, self.config)
