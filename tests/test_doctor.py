"""What the doctor says of healthy and of sick machines."""

from __future__ import annotations

import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests import plugins
from toolchain.configuration.settings import configuration
from toolchain.doctor import diagnosis, probes
from toolchain.doctor import diagnosis as doctor
from toolchain.models.reading.formats import PLUGINS


def test_the_pins_are_those_of_the_project() -> None:
    checks = {check.name: check for check in doctor._check_pins()}
    assert checks["apache-tvm"].found == metadata.version("apache-tvm")
    assert {"apache-tvm", "apache-tvm-ffi", "ziglang"} <= set(checks)
    assert all(check.state == "ok" for check in checks.values())


def test_another_version_than_the_pinned_one_is_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_pins", lambda: {"apache-tvm-ffi": "0.1.15", "no-such-package": "1"})
    pair, absent = doctor._check_pins()
    assert pair.state == absent.state == "missing"
    assert "apache-tvm-ffi==0.1.15" in pair.hint
    assert absent.found == "not installed"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed with signal 11"),
        ("raise ImportError('no such symbol')", "ImportError: no such symbol"),
        ("print('0.1')", "0.1"),
    ],
)
def test_a_library_that_crashes_does_not_take_the_doctor_along(program: str, said: str) -> None:
    check = probes.check_in_a_process("library", program, "reinstall it", lambda text: text == "good")
    assert check.state == "missing" and said in check.found and check.hint == "reinstall it"


def test_one_that_hangs_does_not_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "PROBE_SECONDS", 0.2)
    check = probes.check_in_a_process("library", "import time; time.sleep(60)", "reinstall it")
    assert check.state == "missing" and "did not answer" in check.found


def test_a_tool_that_is_not_there_is_as_bad_as_the_caller_says() -> None:
    assert probes.check_tool("qemu", ["no-such-tool"], "optional", "get it").state == "optional"
    broken = probes.check_tool("tool", ["false"], "missing", "get it")
    assert broken.state == "missing" and "ended with 1" in broken.found


def test_a_machine_that_lacks_a_program_names_it_and_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "qemu-system-aarch64").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = doctor._check_machines()
    assert (check.name, check.state) == ("qemu-system", "optional")
    assert "qemu-img" in check.found and "qemu-system-aarch64" not in check.found
    assert "qemu-utils" in check.hint and "--kind system" in check.hint


@pytest.mark.slow
def test_an_arm64_host_is_not_asked_for_an_emulator_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [check.name for check in doctor._check_emulator()] == ["qemu for armv7a", "armv7a C library"]
    names = [check.name for check in diagnosis.check_containers()]
    assert "arm programs" in names and "aarch64 programs" not in names
    gcc = {check.name: check for check in doctor._check_compilers()}["aarch64 gcc"]
    assert gcc.hint.endswith("apt-get install gcc")


def test_a_folder_that_cannot_be_written_names_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "file" / "data"))
    checks = {check.name: check for check in doctor._check_folders()}
    assert checks["data_dir"].state == "missing" and "TOOLCHAIN_DATA_DIR" in checks["data_dir"].hint
    assert checks["state_dir"].state == "ok"


def test_a_password_in_an_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_PACKAGE_INDEX", "https://me:secret@index.example.org/simple")
    configuration.cache_clear()
    monkeypatch.setenv("TOOLCHAIN_RECORDS_URL", "postgresql://me:secret@db.example.org/team")
    shown = {s["key"]: s["value"] for s in doctor.settings_with_origins(configuration())}
    assert shown["records_url"] == "postgresql://…@db.example.org/team"
    assert shown["package_index"] == "https://…@index.example.org/simple" and shown["tls_authorities"] == ""


@pytest.mark.parametrize("url", ["mysql://me:secret@host/db", "postgresql://me:sec/secret@host/db"])
def test_a_database_of_records_that_is_none_is_told_without_its_password(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_RECORDS_URL", url)
    configuration.cache_clear()
    shown = {s["key"]: s["value"] for s in doctor.settings_with_origins(configuration())}
    (check,) = doctor._check_records()
    assert check.state == "missing" and "records_url" in check.found
    assert "secret" not in f"{shown} {check}"


def test_without_a_database_of_records_there_is_nothing_to_tell() -> None:
    assert list(doctor._check_records()) == []


def test_opencl_is_not_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    check, simulator = doctor._check_opencl()
    assert (simulator.state, simulator.found) == ("optional", "oclgrind is not installed")
    assert (check.state, check.found) == ("optional", "libOpenCL.so.1 finds no driver (-1001)")
    assert "pocl-opencl-icd" in check.hint


@pytest.mark.slow
def test_cuda_is_not_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")  # before a driver of this machine
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    compiler, gpu = doctor._check_cuda()
    assert compiler.state == "ok" and compiler.found.startswith("NVRTC 13")
    assert gpu.state == "optional" and "libcuda.so.1" in gpu.found


NPU = "from toolchain.devices.kind import DeviceKind\nNPU = DeviceKind(name='npu', code={code})\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "state", "says"),
    [
        (NPU.format(code={}), "ok", "1.0, devices of kind npu"),
        (NPU.format(code={"machine": "edge_npu:NPU"}), "ok", "1.0, devices of kind npu"),
        (NPU.format(code={"machine": "edge_npu:none"}), "optional", "its machine, edge_npu:none, cannot be"),
        ("import no_such_module", "optional", "No module named 'no_such_module'"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "optional",
            "crashed with signal 11",
        ),
        ("raise SystemExit(0)", "optional", "from a plugin, edge-npu, which cannot be loaded"),
        ("import os; os._exit(0)", "optional", "1.0: no output"),
    ],
)
def test_each_plugin_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, state: str, says: str
) -> None:
    plugins.install(tmp_path, monkeypatch, npu="edge_npu:NPU")
    (tmp_path / "edge_npu.py").write_text(module)
    (check,) = doctor._check_plugins()
    assert (check.name, check.state) == ("plugin edge-npu", state) and says in check.found, check
    assert state == "ok" or "pip uninstall edge-npu" in check.hint
    plugins.forget()


def test_a_plugin_cannot_take_the_place_of_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.install(tmp_path, monkeypatch, opencl="edge_npu:NPU")
    (check,) = doctor._check_plugins()
    assert check.state == "note" and "not used" in check.found
    plugins.forget()


@pytest.mark.parametrize(
    ("ending", "reader", "state", "says"),
    [
        ("npz", "numpy:load", "ok", "1.0, networks in .npz files"),
        ("npz", "edge_format:nothing", "optional", "its reader, edge_format:nothing, cannot be loaded"),
        ("onnx", "numpy:load", "note", "not used"),
    ],
)
def test_plugin_for_a_format_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, reader: str, state: str, says: str
) -> None:
    plugins.install(tmp_path, monkeypatch, group=PLUGINS.group, **{ending: "edge_format:ROW"})
    (tmp_path / "edge_format.py").write_text(
        "from toolchain.models.reading.formats import FileFormat\n"
        f"ROW = FileFormat(name='numpy', endings=('.{ending}',), reader={reader!r}, judged='it')\n"
    )
    (check,) = doctor._check_plugins()
    assert (check.name, check.state) == (f"plugin edge-{ending}", state) and says in check.found, check
    plugins.forget()


def test_without_plugins_there_is_nothing_to_tell_of_them() -> None:
    assert list(doctor._check_plugins()) == []


STEPS = [
    probes.ProbeStep("first", "reinstall"),
    probes.ProbeStep("second", "get it", lambda text: text == "good"),
]


@pytest.mark.parametrize(
    ("program", "states", "said"),
    [
        ("print('1.0'); print('good')", ["ok", "ok"], "good"),
        ("print('1.0'); print('bad')", ["ok", "missing"], "bad"),
        (
            "print('1.0', flush=True); import os, signal; os.kill(os.getpid(), 11)",
            ["ok", "missing"],
            "signal 11",
        ),
        ("print('1.0', flush=True); raise SystemExit('gone')", ["ok", "missing"], "gone"),
        ("raise SystemExit('gone')", ["missing", "missing"], "not tried, since this failed: first"),
    ],
)
def test_the_step_that_fails_is_named_and_the_ones_before_it_are_not(
    program: str, states: list[str], said: str
) -> None:
    checks = list(probes.check_steps(program, STEPS))
    assert [check.state for check in checks] == states and said in checks[-1].found


def test_it_says_which_command_wants_what() -> None:
    checks = [*doctor._check_emulator(), *doctor._check_machines(), *doctor._check_opencl()]
    assert all(check.wanted_by for check in checks)
    wanted = {check.name: check.wanted_by for check in checks}
    assert "--device opencl" in wanted["opencl"] and "--kind system" in wanted["qemu-system"]


def test_commands_that_want_something_exist() -> None:
    """A reader types them: there never was a `board ssh`."""
    commands = (Path(__file__).parents[1] / "docs/reference/cli.md").read_text()
    checks = [*doctor._check_emulator(), *doctor._check_machines(), *doctor._check_ssh()]
    for part in {part for check in checks for part in check.wanted_by.split(", ")} - {
        "boards behind a jump host"
    }:
        command = re.split(r" --| \(", part)[0]
        assert f"\n## toolchain {command}\n" in commands


def test_the_cost_model_is_trained_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of OpenMP spin while they wait: on a busy machine a check took more than ten seconds of CPU."""
    from tvm.s_tir.meta_schedule.cost_model import xgb_model

    from toolchain.tvm_compat import train_cost_model

    used = []
    real = xgb_model.XGBModel.__init__

    def note(self: object, **options: Any) -> None:
        used.append(options["config"].nthread)
        real(self, **options)

    monkeypatch.setattr(xgb_model.XGBModel, "__init__", note)
    assert train_cost_model() > 0.9 and used == [1]


def test_what_compiles_edge_rt_is_needed_only_where_nothing_else_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(doctor, "is_compiled", lambda arch: arch == "aarch64")
    runtime, *tools = doctor._check_edge_rt()
    assert "compiled for aarch64; when first needed" in runtime.found and runtime.state == "note"
    assert [tool.state for tool in tools] == ["optional", "optional"]
    assert "x86_64" in tools[0].wanted_by and "edge-toolchain[compile]" in tools[0].hint
    monkeypatch.setattr(doctor, "is_compiled", lambda _: False)
    assert [check.state for check in doctor._check_edge_rt()] == ["note", "missing", "missing"]
    monkeypatch.setattr(doctor, "is_compiled", lambda _: True)
    assert [check.state for check in doctor._check_edge_rt()] == ["ok", "optional", "optional"]
