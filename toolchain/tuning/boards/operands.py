"""Caches operands in a board's memory, since most are the same for all candidates of a task."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import tvm

from toolchain.arrays import Array

# Limit of the operands cached on a board. One layer has up to 10 MB of weights, in several layouts; the
# smallest boards have 512 MB of memory.
_KEPT_BYTES = 64 << 20
_Key: TypeAlias = tuple[str, str, tuple[int, ...], bytes]


class Operands:
    """The operands of one session. Equal inputs are sent only once."""

    def __init__(self, session: tvm.rpc.RPCSession) -> None:
        self._session = session
        self._kept: dict[_Key, tvm.runtime.Tensor] = {}
        self._bytes = 0

    def of(self, arrays: Sequence[Array], outputs: int, memory: str) -> list[tvm.runtime.Tensor]:
        """Return tensors on the board for a function's arguments; the last `outputs` of them are its outputs.

        Outputs are always sent anew: in a reused buffer the values of another candidate would pass for the
        outputs of this one.
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
