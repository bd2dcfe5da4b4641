"""The table of rewrite rules by operator."""

from __future__ import annotations

from toolchain.models.rewrites import (
    convolutions,
    fused,
    fused_attention,
    indexing,
    logic,
    normalisation,
    reductions,
    resampling,
    sklearn,
    spectral,
    windows,
)
from toolchain.models.rewrites.dropout import without_dropout
from toolchain.models.rewrites.functions import DEFINED, with_its_body
from toolchain.models.rewrites.graph import Rule
from toolchain.models.rewrites.quantised.table import RULES as QUANTISED

RULES: dict[str, Rule] = {
    **dict.fromkeys(DEFINED, with_its_body),
    **fused.RULES,
    **fused_attention.RULES,
    **reductions.RULES,
    **sklearn.RULES,
    **QUANTISED,
    "BatchNormalization": normalisation.batch_norm,
    "Col2Im": windows.columns_to_image,
    "Compress": indexing.compress,
    "Concat": indexing.concatenation,
    "DFT": spectral.fourier_transform,
    "ConvTranspose": convolutions.transposed_to_shape,
    "Det": indexing.determinant,
    "Dropout": without_dropout,
    "EyeLike": indexing.eye_like,
    "IsInf": logic.infinite_of_a_sign,
    "LayerNormalization": normalisation.layer_norm_with_statistics,
    "LpNormalization": normalisation.lp_normalisation,
    "LpPool": normalisation.lp_pool,
    "MaxPool": windows.max_pool_with_indices,
    "MaxUnpool": windows.max_unpool,
    "MeanVarianceNormalization": normalisation.mean_variance_normalisation,
    "OneHot": indexing.one_hot,
    "Pad": windows.padded,
    "Resize": resampling.resized,
    "RMSNormalization": normalisation.rms_norm_of_all,
    "RoiAlign": windows.roi_align,
    "SpaceToDepth": indexing.space_to_depth,
    "Split": indexing.split,
    "STFT": spectral.short_time_transform,
    "TopK": indexing.largest,
    "Upsample": resampling.resized,
}
"""Rules by the operator that they replace; a rule may keep a node."""
