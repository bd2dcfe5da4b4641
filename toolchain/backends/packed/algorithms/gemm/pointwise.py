"""A product of matrices as the convolution of 1x1 that sums up the same, for estimates and packed weights."""

from __future__ import annotations

from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.matmul import Matmul


def pointwise(product: Matmul) -> Convolution:
    """Return the convolution whose places are a product's rows, and whose output channels are its columns."""
    return Convolution(
        batch=1,
        ci=product.inner.extent,
        co=product.columns.extent,
        groups=1,
        size=(product.rows.extent,),
        kernel=(1,),
        out=(product.rows.extent,),
        stride=(1,),
        dilation=(1,),
        x=product.a.buffer,
        weight=product.b.buffer,
        y=product.y,
        pads=(0, 0),
    )
