"""ResNet-18 in three dimensions (Tran et al. 2018, arXiv:1711.11248, "R3D"), torchvision's r3d_18."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.models.zoo import resnet

if TYPE_CHECKING:
    from toolchain.models.zoo.graph import GraphBuilder

CLASSES = 400  # Kinetics-400


def define(net: GraphBuilder) -> str:
    """Add the layers and return the name of the logits."""
    x = net.conv_bn_relu("conv1", net.data, 64, kernel=(3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3))
    x = resnet.stages(net, x, resnet.basic, (2, 2, 2, 2))
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool", x)), CLASSES)
