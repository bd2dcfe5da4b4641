"""How a convolution is cut into pieces: the knobs of upstream's tutorials."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from toolchain.errors import UsageError
from toolchain.foreign import shortened

_EXAMPLE = "tile_h=8,tile_w=56,tile_ci=1,tile_co=2,oc_nthread=1,h_nthread=2"
_ONE = ("tile_b", "oc_nthread", "h_nthread")  # that may be left out: they are 1


@dataclass(frozen=True, order=True)
class Knobs:
    """A way to cut a convolution.

    Attributes
    ----------
    tile_h, tile_w
        Rows and columns of the result that are computed at once.
    tile_ci, tile_co
        Blocks of input channels that are loaded at once, blocks of output channels that are computed at once.
    oc_nthread, h_nthread
        How many such pieces are at work in turn, so that one computes while operands of the other are loaded:
        pieces beside each other in channels of the result, or in its rows.
    tile_b
        Images at once.
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
        """Pieces that are at work in turn."""
        return self.oc_nthread * self.h_nthread

    def decisions(self) -> dict[str, int]:
        """Return the knobs by name, in the order of upstream's."""
        values = asdict(self)
        return {"tile_b": values.pop("tile_b"), **values}

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.decisions().items())


def read_knobs(text: str) -> Knobs:
    """Return the knobs that a text such as `tile_h=8,tile_w=56,…` says.

    Raises
    ------
    UsageError
        It does not say all of them once, in positive numbers.
    """
    values: dict[str, int] = {}
    names = tuple(Knobs.__dataclass_fields__)
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or name not in names:
            raise _refused(text, f"{shortened(part)!r} is none; the knobs are: {', '.join(names)}")
        if name in values:
            raise _refused(text, f"{name} stands in it twice")
        if not (value.isascii() and value.isdigit() and len(value) < 9 and int(value)):
            raise _refused(text, f"{name} is {shortened(value)!r}, no positive whole number")
        values[name] = int(value)
    if missing := [name for name in names if name not in values and name not in _ONE]:
        raise _refused(text, f"it lacks {', '.join(missing)}")
    return Knobs(**values)


def _refused(text: str, reason: str) -> UsageError:
    return UsageError(f"knobs {shortened(text)!r}: {reason}", f"such as {_EXAMPLE}")
