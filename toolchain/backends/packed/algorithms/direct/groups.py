"""Groups of few channels, computed together."""

from __future__ import annotations

from toolchain.backends.packed.recognise.convolution import Convolution


def merged(conv: Convolution, lanes: int) -> tuple[int, int, int]:
    """Return (groups, input channels, output channels of one), small groups computed together.

    Together their weight is block-diagonal, and its zeros are multiplied too (an infinite input reaches
    the other groups of its block). Still far faster than channel by channel: vectors are full.
    """
    ci, co = conv.ci // conv.groups, conv.co // conv.groups
    for many in range(1, conv.groups):
        if many * ci % lanes or many * co % lanes:
            continue
        # The last may have groups that there are none where it has one block, of zeros beyond the channels.
        if conv.groups % many == 0 or many * ci == many * co == lanes:
            return -(-conv.groups // many), many * ci, many * co
    return 1, conv.ci, conv.co
