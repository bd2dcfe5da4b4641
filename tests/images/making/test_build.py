"""Images, really built: sizes, labels, what is anew and what is not, failing steps, no trace of a site."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unique import UNIQUE
from tests.waiting import until
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError, UsageError
from toolchain.images import contents
from toolchain.images.catalogue import image_named
from toolchain.images.debian.unpacking import debian_mirror
from toolchain.images.engine import Engine, connect
from toolchain.images.listing import ImageState, state_of
from toolchain.images.making import build
from toolchain.images.making.build import STAGE_LABEL, build_images, to_build
from toolchain.images.making.wheels import ensure_wheels

pytestmark = pytest.mark.slow
Built = Callable[[str], ImageState]
ANNOTATION = "org.opencontainers.image"
# MiB; measured 1023, 1155, 1140.
LIMITS = {"base": 1060, "aarch64": 1200, "armhf": 1200}


def containers_of(engine: Engine, words: str) -> list[str]:
    """Return the containers whose command has these words, by which no other test has some."""
    return [c["Id"] for c in engine.api.containers(all=True) if words in c["Command"]]


@pytest.mark.parametrize("name", LIMITS)
def test_size_and_state(built: Built, engine: Engine, name: str) -> None:
    state = built(name)
    image = image_named(name)
    assert state.size_mib is not None and 500 < state.size_mib < LIMITS[name]
    assert not state.stale and state.word == "current"
    assert STAGE_LABEL not in (engine.image_labels(image.tag) or {})


def test_current_images_are_not_rebuilt(built: Built, engine: Engine) -> None:
    before = built("aarch64")
    lines: list[str] = []
    after = build_images(engine, ["aarch64"], progress=lines.append)
    assert [b.made for b in after] == [False, False]
    assert after[-1].state == before
    assert lines == ["base: current", "aarch64: current"]


def test_a_change_makes_an_image_and_those_on_it_stale(built: Built, engine: Engine, tables: Path) -> None:
    built("aarch64")
    assert not state_of(engine, image_named("aarch64")).stale
    with (tables / "aarch64" / "Dockerfile").open("a") as file:
        file.write("# changed\n")
    assert not state_of(engine, image_named("base")).stale
    assert state_of(engine, image_named("aarch64")).word == "out of date"
    assert [needed for _, _, needed in to_build(engine, ["aarch64"])] == [False, True]
    with (tables / "base" / "slim-venv.sh").open("a") as file:
        file.write("# changed\n")
    assert [needed for _, _, needed in to_build(engine, ["aarch64"])] == [True, True]


def test_failing_step_is_reported_with_its_last_lines(built: Built, engine: Engine, tables: Path) -> None:
    before = built("armhf")
    (tables / "armhf" / "Dockerfile").write_text(
        "ARG FOUNDATION\nFROM ${FOUNDATION}\nRUN echo long ago\n"
        f"RUN for i in $(seq 30); do echo line $i; done; echo why it fails {UNIQUE} >&2; exit 7\n"
    )
    lines: list[str] = []
    with pytest.raises(ToolchainError) as raised:
        build_images(engine, ["armhf"], progress=lines.append)
    text = raised.value.message
    assert "image armhf: step 4/" in text and "RUN for i in" in text and "returned a non-zero code: 7" in text
    assert "line 30" in text and "why it fails" in text  # which of two streams comes last is chance
    assert "line 1\n" not in text and "long ago" not in text
    assert raised.value.hint.endswith(f"{tables}/armhf/Dockerfile")
    assert any(line.startswith("armhf: step 3/") for line in lines)
    assert engine.api.inspect_image(before.tag)["Id"] == before.id  # the one from before stays
    assert not containers_of(engine, f"why it fails {UNIQUE}")


def test_invalid_dockerfile_is_reported(built: Built, engine: Engine, tables: Path) -> None:
    built("base")
    (tables / "armhf" / "Dockerfile").write_text("FORM debian\n")
    with pytest.raises(ToolchainError, match=r"cannot build the image armhf:.*FORM"):
        build_images(engine, ["armhf"], progress=print)


def test_build_arguments(built: Built, engine: Engine, tables: Path, tmp_path: Path) -> None:
    built("base")
    (tables / "armhf" / "Dockerfile").write_text(
        "ARG FOUNDATION\nFROM ${FOUNDATION}\nARG TOY_ARCHIVE\nARG WORD\nCOPY given/ /given/\n"
        'RUN echo "$WORD $(cat /$TOY_ARCHIVE)" && exit 1\n'
    )
    with pytest.raises(UsageError, match=r"--build-arg OTHER: none of armhf takes it") as refused:
        build_images(engine, ["armhf"], build_args={"OTHER": "1"}, progress=print)
    assert refused.value.hint == "they take: TOY_ARCHIVE, WORD"
    with pytest.raises(UsageError, match=r"TOY_ARCHIVE=/no/such: no such file"):
        build_images(engine, ["armhf"], build_args={"TOY_ARCHIVE": "/no/such"}, progress=print)
    with pytest.raises(UsageError, match="none of armhf takes it"):
        to_build(engine, ["armhf"], build_args={"OTHER": "1"})
    (tmp_path / "toy.zip").write_text("the file's content")
    arguments = {"TOY_ARCHIVE": str(tmp_path / "toy.zip"), "WORD": "hello"}
    with pytest.raises(ToolchainError, match="hello the file's content"):
        build_images(engine, ["armhf"], build_args=arguments, progress=print)


@pytest.fixture
def authority(tmp_path: Path) -> str:
    """Return the name of a TLS authority whose certificate lies in `tmp_path / "authorities"`."""
    name = "Zwiebelturm Marker Authority"
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "authorities").mkdir()
    (tmp_path / "authorities" / "site.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return name


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of this package that images get from now on."""
    folder = tmp_path / "toolchain"
    shutil.copytree(Path(contents.__file__).parents[1], folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(contents, "_PACKAGE", folder)
    return folder


@pytest.mark.usefixtures("authority")
def test_code_changes_reuse_layers_and_authorities_leave_no_trace(
    built: Built, engine: Engine, code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = engine.api.inspect_image(built("base").tag)["RootFS"]["Layers"]
    ensure_wheels(image_named("base"), print)  # an image that is current is there without its wheels
    (code / "changed.py").write_text("CHANGED = True\n")
    host = re.sub(r"^(https?://[^/:]+)", r"\1:80", debian_mirror())  # the same mirror by a name of its own
    index = "http://index-marker.invalid/simple"
    monkeypatch.setenv("TOOLCHAIN_DEBIAN_MIRROR", host)
    monkeypatch.setenv("TOOLCHAIN_PACKAGE_INDEX", index)
    monkeypatch.setenv("TOOLCHAIN_TLS_AUTHORITIES", str(tmp_path / "authorities"))
    configuration.cache_clear()
    # A name of its own: other tests use the real one.
    image = image_named("base").model_copy(update={"name": f"base-test-{UNIQUE}"})
    try:
        build._build(engine, image, {}, False, print)
        anew = engine.api.inspect_image(image.tag)["RootFS"]["Layers"]
        assert anew[: len(layers) - 1] == layers[:-1]  # Python, TVM and zig are the same layers
        assert anew[-1] != layers[-1]
        certificate = (tmp_path / "authorities" / "site.crt").read_bytes().splitlines()[1]
        markers = [host.encode().partition(b"//")[2], b"index-marker", b"Zwiebelturm", certificate]
        assert found_in(engine.api.get_image(image.tag), [*markers, b"CHANGED = True"]) == {b"CHANGED = True"}
    finally:
        engine.remove_image(image.tag)


def found_in(chunks: Iterator[bytes], markers: list[bytes]) -> set[bytes]:
    """Return which of them are somewhere in an exported image: its layers, configuration and history."""
    present: set[bytes] = set()
    rest = b""
    longest = max(map(len, markers))
    for chunk in chunks:
        text = rest + chunk
        present |= {marker for marker in markers if marker in text}
        rest = text[-longest:]
    return present


def test_an_interrupted_build_leaves_no_container(built: Built, tables: Path, engine: Engine) -> None:
    before = built("armhf")
    (tables / "armhf" / "Dockerfile").write_text(
        f"ARG FOUNDATION\nFROM ${{FOUNDATION}}\nRUN trap exit TERM; : {UNIQUE}; sleep 600 & wait\n"
    )
    ran: list[str] = []

    def interrupt() -> None:
        with connect() as second_engine, suppress(AssertionError):
            until(lambda: containers_of(second_engine, UNIQUE), 300)
            ran.append("its step")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        build_images(engine, ["armhf"], progress=print)
    assert ran
    until(lambda: not containers_of(engine, UNIQUE))
    assert engine.api.inspect_image(before.tag)["Id"] == before.id
