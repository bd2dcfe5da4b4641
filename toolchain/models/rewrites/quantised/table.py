"""The rules of quantised operators."""

from __future__ import annotations

from toolchain.models.rewrites.graph import Rule
from toolchain.models.rewrites.quantised import pointwise, pools, products

MICROSOFT = "com.microsoft."

CONVOLUTION_WITH_FLOATS, GEMM_WITH_FLOATS = "QLinearConvWithFloats", "QGemmWithFloats"
"""Our own operators: like those of integers, but with a bias in floats, in steps of the sums."""

OWN = frozenset({f"{MICROSOFT}{CONVOLUTION_WITH_FLOATS}", f"{MICROSOFT}{GEMM_WITH_FLOATS}"})
"""Operators that no file has."""

RULES: dict[str, Rule] = {
    "ConvInteger": products.integer_convolution,
    "MatMulInteger": products.integer_product,
    "QLinearConv": products.convolution,
    "QLinearMatMul": products.product,
    f"{MICROSOFT}DequantizeLinear": pointwise.standard("DequantizeLinear"),
    f"{MICROSOFT}DynamicQuantizeMatMul": products.dynamic_product,
    f"{MICROSOFT}MatMulIntegerToFloat": products.integer_product_to_float,
    f"{MICROSOFT}QGemm": products.gemm,
    f"{MICROSOFT}{GEMM_WITH_FLOATS}": products.gemm,
    f"{MICROSOFT}QLinearAdd": pointwise.addition,
    f"{MICROSOFT}QLinearAveragePool": pools.average_pool,
    f"{MICROSOFT}QLinearConcat": pointwise.concatenation,
    f"{MICROSOFT}QLinearConv": products.convolution,
    f"{MICROSOFT}{CONVOLUTION_WITH_FLOATS}": products.convolution,
    f"{MICROSOFT}QLinearGlobalAveragePool": pools.global_average_pool,
    f"{MICROSOFT}QLinearLeakyRelu": pointwise.single("LeakyRelu"),
    f"{MICROSOFT}QLinearMul": pointwise.multiplication,
    f"{MICROSOFT}QLinearSigmoid": pointwise.single("Sigmoid"),
    f"{MICROSOFT}QLinearSoftmax": pointwise.softmax,
    f"{MICROSOFT}QLinearWhere": pointwise.choice,
    f"{MICROSOFT}QuantizeLinear": pointwise.standard("QuantizeLinear"),
}
"""By the type of operator that they replace."""
