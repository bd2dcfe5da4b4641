"""Checks what is installed on this machine, and reports where each setting came from."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from toolchain.architectures.table import LINUX
from toolchain.boards.emulation.qemu import user_modes
from toolchain.boards.emulation.system.machine import INSTALL, PROGRAM, missing_programs
from toolchain.configuration.settings import Configuration, cache_dir, data_dir, settings, state_dir
from toolchain.devices.plugins import plugins
from toolchain.devices.table import OWN
from toolchain.errors import ToolchainError
from toolchain.images.engine import Engine, connect
from toolchain.images.listing import states
from toolchain.linking.zig import zig_program
from toolchain.records.postgres.address import shown_address
from toolchain.records.store import user_store

State = Literal["ok", "missing", "optional", "note"]

PROBE_SECONDS = 120.0  # a first import of tvm from a cold disk takes tens of seconds
ENOUGH_MIB = 2048  # two runtimes with their build folders and zig's cache need about 700 MiB
OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes
    ----------
    state
        `missing`: needed and not usable here. `optional`: not installed, and some features need it.
        `note`: worth knowing.
    hint
        How to install or fix it.
    """

    name: str
    state: State
    found: str
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


def diagnose() -> list[Check]:
    """Do all checks; takes a few seconds, mostly to train a cost model once."""
    return [check for look in _LOOKS for check in look()]


def settings_with_origins(configuration: Configuration) -> list[dict[str, str]]:
    """Return key, value and origin of every setting, without the user and password of an address."""
    values = configuration.settings.model_dump(mode="json")
    if (url := configuration.settings.records_url) is not None:
        values["records_url"] = shown_address(url.get_secret_value())
    shown = {k: "" if v is None else re.sub(r"(?<=://)[^/@]*@", "…@", str(v)) for k, v in values.items()}
    return [{"key": k, "value": v, "origin": configuration.origins[k]} for k, v in shown.items()]


def _check_python() -> Iterator[Check]:
    found = f"{sys.version.split()[0]} ({sys.executable})"
    enough = sys.version_info >= OLDEST_PYTHON
    yield Check("python", "ok" if enough else "missing", found, "install Python 3.11 or newer")


def _pins() -> dict[str, str]:
    """Return the packages that this package pins, with their exact versions."""
    wanted = metadata.requires("edge-toolchain") or []
    return dict(line.split("==", 1) for line in wanted if "==" in line and ";" not in line)


def _check_pins() -> Iterator[Check]:
    for package, version in _pins().items():
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            found = ""
        yield Check(
            package,
            "ok" if found == version else "missing",
            found or "not installed",
            f"pip install {package}=={version}: other versions crash or lack what is used here",
        )


def _check_in_a_process(
    name: str, program: str, hint: str, expected: Callable[[str], bool] = bool, *arguments: str
) -> Check:
    """Run `program` in a separate Python, because incompatible libraries may crash it."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, *arguments],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Check(name, "missing", f"did not answer within {PROBE_SECONDS:g} s", hint)
    output = done.stdout.strip()
    if done.returncode == 0 and expected(output):
        return Check(name, "ok", output)
    if done.returncode < 0:
        return Check(name, "missing", f"crashed with signal {-done.returncode}", hint)
    lines = done.stderr.strip().splitlines() or [output or "no output"]
    return Check(name, "missing", lines[-1][:200], hint)


def _check_libraries() -> Iterator[Check]:
    reinstall = "pip install --force-reinstall edge-toolchain, or `make venv` in a checkout"
    yield _check_in_a_process(
        "tvm loads",
        "import tvm, tvm_ffi; print('tvm', tvm.__version__, 'tvm_ffi', tvm_ffi.__version__)",
        reinstall,
    )
    yield _check_in_a_process(
        "onnxruntime",
        "from toolchain.imports.onnxruntime_import import onnxruntime as o; "
        "print(o.__version__, *o.get_available_providers())",
        reinstall,
        lambda providers: "CPUExecutionProvider" in providers,
    )
    yield _check_in_a_process(
        "cost model",
        "from toolchain.tvm_compat import train_cost_model as t; print(f'correlation {t():.2f}')",
        "pip install xgboost-cpu in the version of requirements.lock; tuning needs it",
        lambda text: float(text.split()[-1]) > 0.9,
    )


def _version_of(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    if done.returncode != 0:
        raise OSError(f"{argv[0]} ended with {done.returncode}")
    return done.stdout.strip().split("\n")[0].strip()


def _check_tool(name: str, argv: list[str], missing: State, hint: str) -> Check:
    program = shutil.which(
        argv[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )
    if program is None:
        return Check(name, missing, f"{argv[0]} is not installed", hint)
    try:
        return Check(name, "ok", f"{_version_of([program, *argv[1:]])} ({program})")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, missing, str(error), hint)


def _check_compilers() -> Iterator[Check]:
    try:
        zig = str(zig_program())
    except ToolchainError as error:
        yield Check("zig", "missing", error.message, error.hint)
    else:
        yield _check_tool("zig", [zig, "version"], "missing", "pip install --force-reinstall ziglang")
    for name in ("cmake", "ninja"):
        yield _check_tool(name, [name, "--version"], "missing", f"pip install {name}")
    package = "gcc" if "aarch64" in _own() else "gcc-aarch64-linux-gnu"
    hint = f"for `--linker gcc` only: apt-get install {package}"
    yield _check_tool("aarch64 gcc", ["aarch64-linux-gnu-gcc", "--version"], "note", hint)


def _own() -> tuple[str, ...]:
    """Return the architectures whose programs need no emulator on this host: its own."""
    return tuple(row.name for row in LINUX.values() if row.uname == platform.machine())


def _check_emulator() -> Iterator[Check]:
    for arch, mode in user_modes().items():
        if arch in _own():
            continue
        purpose = f"for emulated {arch} boards: apt-get install"
        yield _check_tool(
            f"qemu for {arch}",
            [mode.program, "--version"],
            "optional",
            f"{purpose} qemu-user-static, or set {mode.program_key}",
        )
        there = mode.loader.exists()
        yield Check(
            f"{arch} C library",
            "ok" if there else "optional",
            str(mode.loader) if there else f"{mode.loader} does not exist",
            f"{purpose} {mode.package}, or set {mode.sysroot_key}",
        )


def _check_machines() -> Iterator[Check]:
    hint = f"for `toolchain board emulate start --kind system`: {INSTALL}"
    if missing := missing_programs():
        yield Check("qemu-system", "optional", f"not installed: {', '.join(missing)}", hint)
    else:
        yield _check_tool("qemu-system", [PROGRAM, "--version"], "optional", hint)


# A plugin's row and all the code that it names, in a process that may crash, hang or end.
_PLUGIN = """
import sys
from toolchain.devices.by_kind import KindTable
from toolchain.devices.table import find_kind
from toolchain.errors import ToolchainError
try:
    for seam in find_kind(sys.argv[1]).code:
        KindTable(seam, {}).find(sys.argv[1])
except ToolchainError as error:
    raise SystemExit(error.message)
print("loaded")
"""


def _check_plugins() -> Iterator[Check]:
    """Yield a line for each kind of device that an installed package adds."""
    for plugin in plugins():
        name, hint = f"plugin {plugin.package}", plugin.uninstall
        found = f"{plugin.version}, devices of kind {plugin.kind}"
        if plugin.kind in OWN:
            yield Check(name, "note", f"{found}: not used, the toolchain has that kind itself", hint)
            continue
        check = _check_in_a_process(name, _PLUGIN, hint, lambda said: "loaded" in said, plugin.kind)
        if check.state == "ok":
            yield replace(check, found=found)
        else:
            yield replace(check, state="optional", found=f"{plugin.version}: {check.found}")


# Counts the drivers that OpenCL's loader finds; the drivers themselves are not called.
_PLATFORMS = """
import ctypes
count = ctypes.c_uint()
code = ctypes.CDLL("libOpenCL.so.1").clGetPlatformIDs(0, None, ctypes.byref(count))
if code or not count.value:
    raise SystemExit(f"libOpenCL.so.1 finds no driver ({code})")
print(f"libOpenCL.so.1 with {count.value} drivers")
"""


def _check_opencl() -> Iterator[Check]:
    hint = "for `--device opencl` on the board local: apt-get install ocl-icd-libopencl1 pocl-opencl-icd"
    check = _check_in_a_process("opencl", _PLATFORMS, hint)
    yield check if check.state == "ok" else replace(check, state="optional")
    hint = "to simulate kernels, which finds accesses outside their memory: apt-get install oclgrind"
    yield _check_tool("oclgrind", ["oclgrind", "--version"], "optional", hint)


_CUDA = """
import sys
from toolchain.devices.native_cuda import native_architectures
from toolchain.errors import ToolchainError
from toolchain.lowering.dialects.nvrtc import nvrtc_version
try:
    print("NVRTC " + nvrtc_version() if sys.argv[1] == "compiler" else " ".join(native_architectures()))
except ToolchainError as error:
    raise SystemExit(error.message)
"""


def _check_cuda() -> Iterator[Check]:
    """Yield a line for the compiler, which builds need, and one for a GPU, which `local` needs."""
    compiler = "for builds with `--device cuda` on this host: pip install 'edge-toolchain[cuda]'"
    gpu = "for `--device cuda` on the board local: NVIDIA's driver for a GPU from sm_80 on"
    for part, hint in (("compiler", compiler), ("gpu", gpu)):
        check = _check_in_a_process(f"cuda {part}", _CUDA, hint, bool, part)
        yield check if check.state == "ok" else replace(check, state="optional")


def _check_folders() -> Iterator[Check]:
    for key, folder in (("cache_dir", cache_dir()), ("data_dir", data_dir()), ("state_dir", state_dir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            hint = f"set {key} in toolchain.toml, or TOOLCHAIN_{key.upper()}"
            yield Check(key, "missing", f"{folder}: {error.strerror}", hint)
            continue
        free = shutil.disk_usage(folder).free // 2**20
        enough = free >= ENOUGH_MIB
        hint = f"less than {ENOUGH_MIB} MiB: free some, or `toolchain cache prune`"
        yield Check(key, "ok" if enough else "note", f"{folder}, {free} MiB free", hint)


def _check_records() -> Iterator[Check]:
    url = settings().records_url
    if url is None:
        return  # a file in data_dir
    try:
        with user_store(wait=False) as store:
            yield Check("records", "ok", store.name)
    except ToolchainError as error:
        yield Check("records", "missing", error.message, error.hint)


def _check_noise() -> Iterator[Check]:
    file = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    governor = file.read_text().strip() if file.exists() else "not reported by this machine"
    calm = governor == "performance"
    hint = "latencies on `local` vary with the clock; for steady ones: cpupower frequency-set -g performance"
    yield Check("cpu governor", "ok" if calm else "note", governor, hint)
    cpus, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    busy = load > cpus / 2
    found = f"{load:.1f} on {cpus} CPUs"
    yield Check("load", "note" if busy else "ok", found, "this machine is busy: latencies will be too high")


def _check_containers() -> Iterator[Check]:
    hint = "for emulated boards in containers: `make deps` in a checkout, or see docs/howto/install.md"
    try:
        with connect() as engine:
            yield Check("docker", "ok", f"{engine.version} at {engine.where}")
            yield from _check_images(engine)
    except ToolchainError as error:
        yield Check("docker", "optional", error.message, error.hint)
    yield _check_tool("mmdebstrap", ["mmdebstrap", "--version"], "optional", hint)
    for name in (row.qemu.name for row in LINUX.values() if row.qemu and row.name not in _own()):
        flags = _registered_flags(name)
        # F: the emulator also works inside containers. C: so does sudo.
        good = flags is not None and {"F", "C"} <= set(flags)
        found = "no emulator is registered with binfmt_misc" if flags is None else f"flags {flags}"
        yield Check(f"{name} programs", "ok" if good else "optional", found, hint)


def _check_images(engine: Engine) -> Iterator[Check]:
    """Yield one check for each state, with the images in that state."""
    found: dict[str, list[str]] = {}
    try:
        for state in states(engine):
            found.setdefault(state.word, []).append(state.name)
    except ToolchainError as error:
        yield Check("images", "note", error.message, error.hint)
    hints = {
        "current": "",
        "out of date": "--engine auto ignores them; rebuild them: toolchain image build",
        "absent": "to build and tune in them: toolchain image build NAME",
    }
    for word, hint in hints.items():
        if word in found:
            yield Check(f"images {word}", "note" if hint else "ok", ", ".join(found[word]), hint)


def _registered_flags(name: str) -> str | None:
    """Return the binfmt_misc flags for an architecture; our own emulator goes before another one's."""
    for entry in (f"edge-{name}", f"qemu-{name}"):
        file = Path("/proc/sys/fs/binfmt_misc") / entry
        if file.exists():
            found = re.search(r"^flags: (\w*)$", file.read_text(), re.MULTILINE)
            return found.group(1) if found else ""
    return None


_LOOKS = (
    _check_python,
    _check_pins,
    _check_libraries,
    _check_compilers,
    _check_emulator,
    _check_machines,
    _check_opencl,
    _check_cuda,
    _check_plugins,
    _check_folders,
    _check_records,
    _check_noise,
    _check_containers,
)
