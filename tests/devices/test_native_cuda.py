"""The architecture of this host's GPU, as reported by a small library in the place of NVIDIA's driver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolchain.devices.cuda_architectures import VARIABLE, native_architectures
from toolchain.devices.device import Device
from toolchain.devices.table import CUDA
from toolchain.errors import MissingError, UsageError
from toolchain.linking.zig import run_zig, zig_cache_environment

DRIVER = """
int cuInit(unsigned flags) { (void)flags; return RESULT; }
int cuDeviceGetCount(int* count) { *count = COUNT; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  static const int major[] = {MAJORS};
  *value = attribute == 75 ? major[device] : 0;
  return 0;
}
"""


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    native_architectures.cache_clear()
    yield
    native_architectures.cache_clear()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    result, majors = request.param
    source = tmp_path / "driver.c"
    text = DRIVER.replace("RESULT", str(result)).replace("COUNT", str(len(majors)))
    source.write_text(text.replace("MAJORS", ", ".join(map(str, majors or [9]))))
    library = tmp_path / "libcuda.so.1"
    arguments = ["cc", "-shared", "-o", str(library), str(source)]
    assert run_zig(arguments, 300, zig_cache_environment()).returncode == 0
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))


@pytest.mark.parametrize("driver", [(0, [12, 9, 12, 7])], indirect=True)
@pytest.mark.usefixtures("driver")
def test_each_architecture_is_told_once_but_not_those_that_are_too_old() -> None:
    assert native_architectures() == ("sm_90", "sm_120")
    limits = {"compute_units": 8, "max_work_group": 1024, "local_bytes": 49152, "private_bytes": 1020}
    device = Device.model_validate({"kind": "cuda", **limits, "arch": "native"})
    assert CUDA.target_options is not None
    assert CUDA.target_options(device)["keys"] == ["cuda", "gpu", "sm_90", "sm_120"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "said"),
    [
        ((999, [9]), "is unknown: cuInit of the driver returns error 999"),
        ((0, []), "is unknown: there is none"),
        ((0, [7, 7]), "is of sm_70; code is made for GPUs from sm_80 on"),
    ],
    indirect=["driver"],
)
@pytest.mark.usefixtures("driver")
def test_a_driver_without_a_gpu_that_code_is_made_for(said: str) -> None:
    with pytest.raises(MissingError) as caught:
        native_architectures()
    assert said in caught.value.message and "--arch sm_90" in str(caught.value.hint)


@pytest.mark.parametrize("given", ["foo", ",", "sm_75", "sm_080"])
def test_a_variable_that_names_none(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(UsageError, match=f"{VARIABLE}={given}: arch is sm_80 or newer"):
        native_architectures()


def test_no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"libcuda\.so\.1"):
        native_architectures()


def test_a_driver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("python", 30)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(MissingError, match="did not answer"):
        native_architectures()


def test_a_container_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sm_87,sm_90")
    assert native_architectures() == ("sm_87", "sm_90")
