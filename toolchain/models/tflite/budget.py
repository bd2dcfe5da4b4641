"""Bounds what a file may ask for by its size: parts of a flatbuffer may share bytes, thousands of times."""

from __future__ import annotations

from toolchain.errors import UsageError


class ByteBudget:
    """The bytes that may still be made of a file.

    Parameters
    ----------
    origin
        Names the file in errors.
    most
        Bytes in all.
    """

    def __init__(self, origin: str, most: int) -> None:
        self._origin, self._left = origin, most

    def spend(self, size: int) -> None:
        """Count `size` bytes more.

        Raises
        ------
        UsageError
            They are too many.
        """
        self._left -= size
        if self._left < 0:
            raise UsageError(
                f"{self._origin}: broken: its parts use the same bytes again and again", "convert it again"
            )
