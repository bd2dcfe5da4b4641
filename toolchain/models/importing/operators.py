"""The names of operators that the import knows: so that a file is refused before TVM is imported."""

from __future__ import annotations

MICROSOFT = "com.microsoft"
"""Domain of onnxruntime's own operators."""

OF_MICROSOFT = frozenset({"DequantizeLinear", "DynamicQuantizeLSTM", "QuantizeLinear"})
"""Operators of `com.microsoft` that the import knows; others are written out before (`models.rewrites`)."""

_NAMES = """
Abs Acos Acosh Add AffineGrid AllClassNMS And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool
BatchNormalization BiasGelu BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil
CheckDivisor CheckIndices Clip Compress Concat ConcatFromSequence Constant ConstantOfShape Conv
ConvTranspose Cos Cosh CumProd CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLSTM
DynamicQuantizeLinear Einsum Elu EmbedLayerNormalization Equal Erf Exp Expand EyeLike FastGelu Flatten Floor
GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
GreaterOrEqual GridSample GroupNormalization HardSigmoid HardSwish Hardmax Identity If InstanceNormalization
IntegerConv IntegerConvSum IntegerRound IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual
Log LogSoftmax LpPool MatMul MatMulInteger MatMulInteger16 Max MaxPool MaxRoiPool MaxUnpool Mean
MeanVarianceNormalization Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Optional
OptionalGetElement OptionalHasElement Or PRelu Pad Pow QuantizeLinear RMSNormalization RNN Range Reciprocal
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round Scatter ScatterElements ScatterND Selu
SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Shrink Sigmoid
Sign Sin Sinh Size SkipLayerNormalization Slice Softmax Softplus Softsign SpaceToDepth Split SplitToSequence
Sqrt Squeeze Sub Sum Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze
Upsample Where Xor
"""

OPERATORS = frozenset(_NAMES.split())
"""Operators of the standard, and our own, with a converter of TVM's or of ours (`converters.CONVERTERS`)."""
