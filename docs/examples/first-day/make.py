"""Writes mine.onnx and x.npy, the network and the input of docs/tutorials/first-day.md; needs PyTorch."""

import numpy
import torch
from torch.nn import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Flatten, Linear, ReLU, Sequential

torch.manual_seed(0)
network = Sequential(
    *(Conv2d(3, 32, 3, stride=2, padding=1), BatchNorm2d(32), ReLU()),
    *(Conv2d(32, 32, 3, padding=1, groups=32), ReLU(), Conv2d(32, 64, 1), ReLU()),
    *(Conv2d(64, 64, 3, stride=2, padding=1), BatchNorm2d(64), ReLU()),
    *(AdaptiveAvgPool2d(1), Flatten(), Linear(64, 10)),
).eval()
picture = torch.rand(1, 3, 64, 64)
names = {"input_names": ["image"], "output_names": ["scores"]}
torch.onnx.export(network, (picture,), "mine.onnx", external_data=False, **names)
numpy.save("x.npy", picture.numpy())
