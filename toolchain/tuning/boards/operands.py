"""What functions are called with, in a board's memory: most of it is the same for a task's candidates."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import tvm

from toolchain.arrays import Array

# What a board keeps of earlier candidates' operands. Weights of one layer are up to 10 MB here, each way to
# lay them out another; the smallest boards have 512 MB.
_KEPT_BYTES = 64 << 20
_Key: TypeAlias = tuple[str, str, tuple[int, ...], bytes]


class Operands:
    """The operands of one session. What a board was sent once is not sent again."""

    def __init__(self, session: tvm.rpc.RPCSession) -> None:
        self._session = session
        self._kept: dict[_Key, tvm.runtime.Tensor] = {}
        self._bytes = 0

    def of(self, arrays: Sequence[Array], outputs: int, memory: str) -> list[tvm.runtime.Tensor]:
        """Return what a function is called with: its operands, and as the last `outputs` what it writes.

        Those are always sent: in a buffer that another candidate wrote, its values would pass for this one's.
        """
        inputs = len(arrays) - outputs
        device = self._session.device(memory)
        return [
            *(self._once(array, memory) for array in arrays[:inputs]),
            *(tvm.runtime.tensor(array, device) for array in arrays[inputs:]),
        ]

    def _once(self, array: Array, memory: str) -> tvm.runtime.Tensor:
        content = hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).digest()
        key = (memory, str(array.dtype), array.shape, content)
        if key not in self._kept:
            if self._bytes + array.nbytes > _KEPT_BYTES:
                self._kept.clear()
                self._bytes = 0
            self._kept[key] = tvm.runtime.tensor(array, self._session.device(memory))
            self._bytes += array.nbytes
        return self._kept[key]
