"""Divides the output blocks of a convolution among tiles that need not be equally wide.

A number of blocks that is a prime has no divisor but 1, and a tile of one block loads an input for each of
its products. So the last tile may be wider or narrower: 7 blocks are tiles of 2, 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stripe:
    """Groups of equally many output blocks, one behind the other; a tile computes a group.

    Attributes
    ----------
    first
        Its first output block.
    groups
        Number of groups.
    blocks
        Output blocks of each.
    """

    first: int
    groups: int
    blocks: int


def stripes(count: int, blocks: int) -> list[Stripe]:
    """Return one stripe, or two if `blocks` does not divide the number of output blocks.

    A single block that is left over joins the group before it.
    """
    groups, rest = divmod(count, blocks)
    if rest == 1 and groups:
        groups, rest = groups - 1, blocks + 1
    found = [Stripe(0, groups, blocks), Stripe(groups * blocks, 1, rest)]
    return [stripe for stripe in found if stripe.groups and stripe.blocks]
