"""Write tests/data/exporters: small networks as today's exporters write them, weights seeded.

    python -m venv /tmp/torch && /tmp/torch/bin/pip install torch onnx onnxscript
    /tmp/torch/bin/python tools/make_exporter_samples.py pytorch
    …                     tools/make_exporter_samples.py tensorflow    tf2onnx tensorflow-cpu
    …                     tools/make_exporter_samples.py paddle        paddle2onnx paddlepaddle
    …                     tools/make_exporter_samples.py sklearn       skl2onnx scikit-learn

The exporters are no dependencies of the project: each runs in an environment of its own. The versions that
wrote the files stand in tests/data/exporters/VERSIONS.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "exporters"


def pytorch() -> tuple[str, ...]:
    """Write networks by both exporters of PyTorch: the default one, and the older TorchScript one."""
    import torch
    from torch import nn

    class Pictures(nn.Module):
        """SiLU, depthwise, a channel shuffle and a flattening written with the sizes of its input."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU())
            self.deep = nn.Conv2d(8, 8, 5, padding=2, groups=8, padding_mode="reflect")
            self.norm = nn.GroupNorm(2, 8)
            self.wide = nn.Upsample(scale_factor=2, mode="bilinear")
            self.drop = nn.Dropout(0.1)
            self.last = nn.Linear(8 * 16, 10)

        def forward(self, x: Any) -> Any:
            x = self.norm(self.deep(self.first(x)))
            n, c, h, w = x.shape
            x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
            x = nn.functional.avg_pool2d(self.wide(x), 4)
            return self.last(self.drop(x.view(x.size(0), -1)))

    class Words(nn.Module):
        """Attention over words, with a mask made of the input's length."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
            self.last = nn.Linear(16, 3)

        def forward(self, ids: Any) -> Any:
            mask = torch.triu(torch.full((ids.size(1), ids.size(1)), float("-inf")), diagonal=1)
            return self.last(self.layer(self.words(ids), src_mask=mask)).softmax(-1)

    class Stream(nn.Module):
        """Recurrent, its state an input and an output."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(6, 12, num_layers=2)
            self.gru = nn.GRU(12, 8, bidirectional=True)

        def forward(self, x: Any, h: Any, c: Any) -> Any:
            y, (h, c) = self.lstm(x, (h, c))
            return self.gru(y)[0], h, c

    def seeded(kind: type[nn.Module]) -> nn.Module:
        torch.manual_seed(0)
        return kind().eval()

    def save(name: str, module: nn.Module, given: tuple[Any, ...], names: list[str], axes: Any) -> None:
        outputs = [f"output{i}" if i else "output" for i in range(3 if len(given) > 1 else 1)]
        common: dict[str, Any] = {"input_names": names, "output_names": outputs}
        dynamic = tuple({axis: torch.export.Dim(word) for axis, word in axes.get(one, {}).items()} or None
                        for one in names)  # fmt: skip
        torch.onnx.export(module, given, str(FOLDER / f"torch_{name}.onnx"), dynamo=True,
                          external_data=False, dynamic_shapes=dynamic, **common)  # fmt: skip
        torch.onnx.export(module, given, str(FOLDER / f"torchscript_{name}.onnx"), dynamo=False,
                          dynamic_axes=axes, **common)  # fmt: skip
        for exporter in ("torch", "torchscript"):
            _forget_sources(FOLDER / f"{exporter}_{name}.onnx")

    picture = torch.randn(2, 3, 16, 16)
    save("pictures", seeded(Pictures), (picture,), ["image"], {"image": {0: "batch"}})
    save("half", seeded(Pictures).half(), (picture[:1].half(),), ["image"], {})
    save("words", seeded(Words), (torch.randint(0, 20, (1, 7)),), ["ids"], {"ids": {1: "length"}})
    states = (torch.randn(5, 1, 6), torch.zeros(2, 1, 12), torch.zeros(2, 1, 12))
    save("stream", seeded(Stream), states, ["x", "h", "c"], {})
    return "torch", "onnx", "onnxscript"


def tensorflow() -> tuple[str, ...]:
    """Write Keras networks by tf2onnx: pictures in NHWC, and a recurrent one."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    layers = keras.layers
    pictures = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.Activation("swish"),
            layers.DepthwiseConv2D(3, padding="same"),
            layers.ReLU(6.0),
            layers.UpSampling2D(2),
            layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.1),
            layers.Dense(10, activation="softmax"),
        ]
    )
    steps = keras.Sequential(
        [
            keras.Input((12, 6)),
            layers.LSTM(8, return_sequences=True),
            layers.LSTM(6),
            layers.Dense(4, activation="sigmoid"),
        ]
    )
    for name, model in (("pictures", pictures), ("steps", steps)):
        with tempfile.TemporaryDirectory() as folder:
            model.export(folder, format="tf_saved_model", verbose=False)
            argv = ["-m", "tf2onnx.convert", "--saved-model", folder, "--opset", "17"]
            target = FOLDER / f"keras_{name}.onnx"
            subprocess.run([sys.executable, *argv, "--output", str(target)], check=True)
        _forget_sources(target)
    assert tf  # noqa: S101 - keras needs it
    return "tf2onnx", "tensorflow-cpu", "keras"


def paddle() -> tuple[str, ...]:
    """Write a network by paddle2onnx, its height and width open too."""
    import paddle
    from paddle import nn

    paddle.seed(0)

    class Pictures(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(
                nn.Conv2D(3, 8, 3, 2, 1, bias_attr=False), nn.BatchNorm2D(8), nn.Hardswish()
            )
            self.gate = nn.Sequential(nn.AdaptiveAvgPool2D(1), nn.Conv2D(8, 8, 1), nn.Hardsigmoid())
            self.up = nn.Conv2DTranspose(8, 4, 2, 2)
            self.last = nn.Linear(4, 6)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            x = self.up(x * self.gate(x))
            columns = paddle.transpose(paddle.mean(x, axis=2), [0, 2, 1])
            return nn.functional.softmax(self.last(columns), axis=2)

    network = Pictures()
    network.eval()
    with tempfile.TemporaryDirectory() as folder:
        given = paddle.static.InputSpec([None, 3, None, None], "float32", "x")
        paddle.jit.save(network, f"{folder}/net", input_spec=[given])
        files = ["--model_filename", "net.json", "--params_filename", "net.pdiparams"]
        target = ["--save_file", str(FOLDER / "paddle_pictures.onnx"), "--opset_version", "13"]
        program = Path(sys.executable).with_name("paddle2onnx")
        argv = [str(program), "--model_dir", folder, *files, *target, "--optimize_tool", "None"]
        subprocess.run(argv, check=True)
    return "paddle2onnx", "paddlepaddle"


def sklearn() -> tuple[str, ...]:
    """Write pipelines by skl2onnx: a regression, and a classifier that gives a tensor of probabilities."""
    import numpy as np
    from skl2onnx import to_onnx
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    random = np.random.default_rng(0)
    x = random.standard_normal((200, 6)).astype(np.float32) * 3 + 1
    y = x[:, 0] - x[:, 1] * x[:, 2]
    classes = (y > 0).astype(int) + (y > 3)
    few: dict[str, Any] = {"hidden_layer_sizes": (8,), "max_iter": 500, "random_state": 0}
    plans = {
        "regressor": (
            make_pipeline(StandardScaler(), MLPRegressor(**few)),
            y,
        ),
        "ridge": (make_pipeline(MinMaxScaler(), PCA(4, random_state=0), Ridge()), y),
        "classifier": (
            make_pipeline(StandardScaler(), MLPClassifier(**few)),
            classes,
        ),
        "logistic": (make_pipeline(StandardScaler(), LogisticRegression()), classes),
    }
    for name, (pipeline, target) in plans.items():
        pipeline.fit(x, target)
        last = pipeline.steps[-1][1]
        options = {id(last): {"zipmap": False}} if hasattr(last, "predict_proba") else None
        proto = to_onnx(pipeline, x[:1], options=options, target_opset=18)
        (FOLDER / f"sklearn_{name}.onnx").write_bytes(proto.SerializeToString())
    return "skl2onnx", "scikit-learn"


def _forget_sources(path: Path) -> None:
    """Remove source lines and paths of this machine, which exporters note beside nodes and tensors."""
    import onnx

    model = onnx.load(str(path))
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for values in (model.graph, *model.graph.value_info, *model.graph.input, *model.graph.output):
        del values.metadata_props[:]
    model.graph.name, model.graph.doc_string = path.stem, ""
    onnx.save(model, str(path))


def main() -> None:
    """Write the files of one exporter, and which versions wrote them."""
    exporters = {"pytorch": pytorch, "tensorflow": tensorflow, "paddle": paddle, "sklearn": sklearn}
    if len(sys.argv) != 2 or sys.argv[1] not in exporters:
        sys.exit(f"one of: {', '.join(exporters)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    packages = exporters[sys.argv[1]]()
    versions = FOLDER / "VERSIONS"
    lines = (
        dict(line.split(": ", 1) for line in versions.read_text().splitlines()) if versions.is_file() else {}
    )
    lines[sys.argv[1]] = ", ".join(f"{package} {version(package)}" for package in packages)
    versions.write_text("".join(f"{name}: {words}\n" for name, words in sorted(lines.items())))


if __name__ == "__main__":
    main()
