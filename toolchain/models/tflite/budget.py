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
    says, hint
        The error's words.
    """

    def __init__(
        self,
        origin: str,
        most: int,
        says: str = "broken: its parts use the same bytes again and again",
        hint: str = "convert it again",
    ) -> None:
        self.origin, self._left, self._words = origin, most, (f"{origin}: {says}", hint)

    def spend(self, size: int) -> None:
        """Count `size` bytes more.

        Raises
        ------
        UsageError
            They are too many.
        """
        self._left -= size
        if self._left < 0:
            raise UsageError(*self._words)
