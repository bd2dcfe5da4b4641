"""Which rule replaces which operator."""

from __future__ import annotations

from toolchain.models.rewrites import (
    convolutions,
    indexing,
    logic,
    normalisation,
    quantised,
    resampling,
    sklearn,
    spectral,
    windows,
)
from toolchain.models.rewrites.dropout import without_dropout
from toolchain.models.rewrites.functions import DEFINED, with_its_body
from toolchain.models.rewrites.graph import Rule

MICROSOFT = "com.microsoft."

RULES: dict[str, Rule] = {
    **dict.fromkeys(DEFINED, with_its_body),
    **sklearn.RULES,
    "BatchNormalization": normalisation.batch_norm,
    "Col2Im": windows.columns_to_image,
    "Compress": indexing.compress,
    "Concat": indexing.concatenation,
    "ConvInteger": quantised.integer_convolution,
    "DFT": spectral.fourier_transform,
    "ConvTranspose": convolutions.transposed_to_shape,
    "Det": indexing.determinant,
    "Dropout": without_dropout,
    "EyeLike": indexing.eye_like,
    "IsInf": logic.infinite_of_a_sign,
    "LayerNormalization": normalisation.layer_norm_with_statistics,
    "LpNormalization": normalisation.lp_normalisation,
    "LpPool": normalisation.lp_pool,
    "MatMulInteger": quantised.integer_product,
    "MaxPool": windows.max_pool_with_indices,
    "MaxUnpool": windows.max_unpool,
    "OneHot": indexing.one_hot,
    "Pad": windows.padded,
    "QLinearConv": quantised.quantised_convolution,
    "QLinearMatMul": quantised.quantised_product,
    "Resize": resampling.resized,
    "RMSNormalization": normalisation.rms_norm_of_all,
    "RoiAlign": windows.roi_align,
    "SpaceToDepth": indexing.space_to_depth,
    "Split": indexing.split,
    "STFT": spectral.short_time_transform,
    "TopK": indexing.largest,
    f"{MICROSOFT}QGemm": quantised.quantised_gemm,
    f"{MICROSOFT}QLinearAdd": quantised.quantised_pair("Add"),
    f"{MICROSOFT}QLinearAveragePool": quantised.quantised_single("AveragePool"),
    f"{MICROSOFT}QLinearConcat": quantised.quantised_concatenation,
    f"{MICROSOFT}QLinearGlobalAveragePool": quantised.quantised_single("GlobalAveragePool"),
    f"{MICROSOFT}QLinearLeakyRelu": quantised.quantised_single("LeakyRelu"),
    f"{MICROSOFT}QLinearMul": quantised.quantised_pair("Mul"),
    f"{MICROSOFT}QLinearSigmoid": quantised.quantised_single("Sigmoid"),
    f"{MICROSOFT}QLinearSoftmax": quantised.quantised_single("Softmax"),
}
"""By the type of operator that they replace; a rule may leave a node as it is."""
