"""Merges groups of few channels into larger groups, to fill vectors."""

from __future__ import annotations

from toolchain.backends.packed.recognise.convolution import Convolution


def merged(conv: Convolution, lanes: int) -> tuple[int, int, int]:
    """Return (groups, input channels, output channels per group) after small groups were merged.

    A merged group has a block-diagonal weight, whose zeros are multiplied too (so an infinite input reaches
    the other groups of its block). That is still far faster than one group at a time, whose vectors are not
    full.
    """
    ci, co = conv.ci // conv.groups, conv.co // conv.groups
    for many in range(1, conv.groups):
        if many * ci % lanes or many * co % lanes:
            continue
        # If a merged group is one block, the last may have fewer groups, with zeros beyond the channels.
        if conv.groups % many == 0 or many * ci == many * co == lanes:
            return -(-conv.groups // many), many * ci, many * co
    return 1, conv.ci, conv.co
