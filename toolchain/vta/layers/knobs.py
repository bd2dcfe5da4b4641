"""The knobs that cut a convolution into pieces, as in Apache TVM's tutorials on VTA."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from toolchain.errors import UsageError
from toolchain.foreign import shortened

_EXAMPLE = "tile_h=8,tile_w=56,tile_ci=1,tile_co=2,oc_nthread=1,h_nthread=2"
_ONE = ("tile_b", "oc_nthread", "h_nthread")  # may be left out, and are 1 then


@dataclass(frozen=True, order=True)
class Knobs:
    """A way to cut a convolution.

    Attributes
    ----------
    tile_h, tile_w
        Rows and columns of the result in a piece.
    tile_ci, tile_co
        Blocks of input channels that are loaded at once, and blocks of output channels in a piece.
    oc_nthread, h_nthread
        Number of pieces that are computed alternately, neighbours in the output channels or in the rows, so
        that one piece computes while the operands of another are loaded (virtual threads).
    tile_b
        Number of images in a piece.
    """

    tile_h: int
    tile_w: int
    tile_ci: int
    tile_co: int
    oc_nthread: int = 1
    h_nthread: int = 1
    tile_b: int = 1

    @property
    def contexts(self) -> int:
        """Number of pieces that are computed alternately."""
        return self.oc_nthread * self.h_nthread

    def decisions(self) -> dict[str, int]:
        """Return the value of each knob by name, in the order of Apache TVM's tutorials on VTA."""
        values = asdict(self)
        return {"tile_b": values.pop("tile_b"), **values}

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.decisions().items())


def read_knobs(text: str) -> Knobs:
    """Parse knobs from text such as `tile_h=8,tile_w=56,…`.

    Raises
    ------
    UsageError
        A knob is unknown, missing, given twice, or not a positive whole number.
    """
    values: dict[str, int] = {}
    names = tuple(Knobs.__dataclass_fields__)
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or name not in names:
            raise _refused(text, f"{shortened(part)!r} is not a knob; the knobs are: {', '.join(names)}")
        if name in values:
            raise _refused(text, f"{name} is given twice")
        if not (value.isascii() and value.isdigit() and len(value) < 9 and int(value)):
            raise _refused(text, f"{name} is {shortened(value)!r}, not a positive whole number")
        values[name] = int(value)
    if missing := [name for name in names if name not in values and name not in _ONE]:
        raise _refused(text, f"it lacks {', '.join(missing)}")
    return Knobs(**values)


def _refused(text: str, reason: str) -> UsageError:
    return UsageError(f"knobs {shortened(text)!r}: {reason}", f"such as {_EXAMPLE}")
