"""Checks what is installed on this machine, and reports where each setting came from."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from toolchain.architectures import table as architectures
from toolchain.architectures.table import linux_rows
from toolchain.boards.emulation.qemu import or_set, user_modes
from toolchain.boards.emulation.system.machine import INSTALL, PROGRAM, missing_programs
from toolchain.configuration.settings import Configuration, cache_dir, data_dir, settings, state_dir
from toolchain.devices import table as devices
from toolchain.doctor.probes import (
    Check,
    ProbeStep,
    State,
    check_in_a_process,
    check_steps,
    check_tool,
    own_architectures,
)
from toolchain.errors import ToolchainError
from toolchain.images.engine import Engine, connect
from toolchain.images.listing import states
from toolchain.linking.zig import zig_program
from toolchain.models.reading import formats
from toolchain.plugins import PluginRows
from toolchain.records.postgres.connection import shown_address
from toolchain.records.store import user_store
from toolchain.runtime import ARCHES
from toolchain.runtime.cache import is_compiled

# Looks for what container boards and images need: Docker, mmdebstrap, a kernel that runs arm programs.

_BOARDS = "board emulate start --kind container"
_CONTAINERS = f"image build, --engine docker, {_BOARDS}"


def check_containers() -> Iterator[Check]:
    hint = "for emulated boards in containers: `make deps` in a checkout, or see docs/howto/install.md"
    try:
        with connect() as engine:
            yield Check("docker", "ok", f"{engine.version} at {engine.where}", "", _CONTAINERS)
            yield from _check_images(engine)
    except ToolchainError as error:
        yield Check("docker", "optional", error.message, error.hint, _CONTAINERS)
    yield check_tool("mmdebstrap", ["mmdebstrap", "--version"], "optional", hint, _CONTAINERS)
    for name in (row.qemu.name for row in linux_rows() if row.qemu and row.name not in own_architectures()):
        flags = _registered_flags(name)
        # F: the emulator also works inside containers. C: so does sudo.
        good = flags is not None and {"F", "C"} <= set(flags)
        found = "no emulator is registered with binfmt_misc" if flags is None else f"flags {flags}"
        yield Check(f"{name} programs", "ok" if good else "optional", found, hint, f"{_BOARDS} ({name})")


def _check_images(engine: Engine) -> Iterator[Check]:
    """Yield one check for each state, with the images in that state."""
    names_by_state: dict[str, list[str]] = {}
    try:
        for state in states(engine):
            names_by_state.setdefault(state.word, []).append(state.name)
    except ToolchainError as error:
        yield Check("images", "note", error.message, error.hint)
    hints = {
        "current": "",
        "out of date": "--engine auto ignores them; rebuild them: toolchain image build",
        "absent": "to build and tune in them: toolchain image build NAME",
    }
    for word, hint in hints.items():
        if word in names_by_state:
            yield Check(f"images {word}", "note" if hint else "ok", ", ".join(names_by_state[word]), hint)


def _registered_flags(name: str) -> str | None:
    """Return the binfmt_misc flags for an architecture; our own emulator goes before another one's."""
    for entry in (f"edge-{name}", f"qemu-{name}"):
        file = Path("/proc/sys/fs/binfmt_misc") / entry
        if file.exists():
            match = re.search(r"^flags: (\w*)$", file.read_text(), re.MULTILINE)
            return match.group(1) if match else ""
    return None


ENOUGH_MIB = 2048  # two runtimes with their build folders and zig's cache need about 700 MiB
OLDEST_PYTHON = (3, 11)
_DEMO = "aarch64"  # the architecture of the demo's board
_SYSTEM = "board emulate start --kind system"


def diagnose() -> list[Check]:
    """Do all checks; takes a few seconds, mostly to train a cost model once."""
    return [check for look in _LOOKS for check in look()]


def settings_with_origins(configuration: Configuration) -> list[dict[str, str]]:
    """Return key, value and origin of every setting, without the user and password of an address."""
    values = configuration.settings.model_dump(mode="json")
    if (url := configuration.settings.records_url) is not None:
        values["records_url"] = shown_address(url.get_secret_value())
    texts = {k: "" if v is None else re.sub(r"(?<=://)[^/@]*@", "…@", str(v)) for k, v in values.items()}
    return [{"key": k, "value": v, "origin": configuration.origins[k]} for k, v in texts.items()]


def _check_python() -> Iterator[Check]:
    found = f"{sys.version.split()[0]} ({sys.executable})"
    enough = sys.version_info >= OLDEST_PYTHON
    yield Check("python", "ok" if enough else "missing", found, "install Python 3.11 or newer")


def _pins() -> dict[str, str]:
    """Return the packages that this package pins, with their exact versions."""
    requirements = metadata.requires("edge-toolchain") or []
    return dict(line.split("==", 1) for line in requirements if "==" in line and ";" not in line)


def _check_pins() -> Iterator[Check]:
    for package, version in _pins().items():
        try:
            installed = metadata.version(package)
        except metadata.PackageNotFoundError:
            installed = ""
        yield Check(
            package,
            "ok" if installed == version else "missing",
            installed or "not installed",
            f"pip install {package}=={version}: other versions crash or lack what is used here",
        )


_LIBRARIES = """
import tvm, tvm_ffi
print("tvm", tvm.__version__, "tvm_ffi", tvm_ffi.__version__, flush=True)
from toolchain.tvm_compat import train_cost_model
print(f"correlation {train_cost_model():.2f}", flush=True)
"""
_JUDGE = """
from toolchain.imports.onnxruntime_import import onnxruntime
print(onnxruntime.__version__, *onnxruntime.get_available_providers())
"""


def _check_libraries() -> Iterator[Check]:
    reinstall = "pip install --force-reinstall edge-toolchain, or `make venv` in a checkout"
    model = "pip install xgboost-cpu in the version of requirements.lock; tuning needs it"
    steps = [
        ProbeStep("tvm loads", reinstall),
        ProbeStep("cost model", model, lambda text: float(text.split()[-1]) > 0.9),
    ]
    yield from check_steps(_LIBRARIES, steps)
    yield check_in_a_process(
        "onnxruntime", _JUDGE, reinstall, lambda providers: "CPUExecutionProvider" in providers
    )


def _check_compilers() -> Iterator[Check]:
    try:
        zig = str(zig_program())
    except ToolchainError as error:
        yield Check("zig", "missing", error.message, error.hint)
    else:
        yield check_tool("zig", [zig, "version"], "missing", "pip install --force-reinstall ziglang")
    yield from _check_edge_rt()
    package = "gcc" if "aarch64" in own_architectures() else "gcc-aarch64-linux-gnu"
    hint = f"for `--linker gcc` only: apt-get install {package}"
    yield check_tool(
        "aarch64 gcc", ["aarch64-linux-gnu-gcc", "--version"], "note", hint, "build --linker gcc"
    )


def _check_edge_rt() -> Iterator[Check]:
    """Yield a check of edge-rt, and of its compilers, which are needed if no edge-rt is compiled yet."""
    ready = [arch for arch in ARCHES if is_compiled(arch)]
    rest = ", ".join(arch for arch in ARCHES if arch not in ready)
    found = f"compiled for {', '.join(ready) or 'no architecture'}"
    found += f"; when first needed, which takes minutes: {rest}" if rest else ""
    hint = "to compile nothing, install this version's wheels of edge-rt (docs/howto/install.md)"
    yield Check(
        "edge-rt", "note" if rest else "ok", found, hint, "verify, bench, tune, board provision, demo"
    )
    hint = "compiles edge-rt: pip install 'edge-toolchain[compile]', or install edge-rt's wheels"
    wanted_by = f"edge-rt for {rest}; runtime verify" if rest else "runtime verify"
    for name in ("cmake", "ninja"):
        yield check_tool(name, [name, "--version"], "optional" if ready else "missing", hint, wanted_by)


def _check_emulator() -> Iterator[Check]:
    for arch, mode in user_modes().items():
        if arch in own_architectures():
            continue
        purpose = f"for emulated {arch} boards: apt-get install"
        commands = f"board emulate start ({arch})"
        yield check_tool(
            f"qemu for {arch}",
            [mode.program, "--version"],
            "optional",
            f"{purpose} qemu-user-static{or_set(mode.program_key)}",
            f"demo, {commands}" if arch == _DEMO else commands,
        )
        installed = mode.loader.exists()
        yield Check(
            f"{arch} C library",
            "ok" if installed else "optional",
            str(mode.loader) if installed else f"{mode.loader} does not exist",
            f"{purpose} {mode.package}{or_set(mode.sysroot_key)}",
            f"board emulate start --kind process ({arch})",
        )


def _check_ssh() -> Iterator[Check]:
    wanted_by = "board shell, lab start, tune, boards behind a jump host"
    yield check_tool("ssh client", ["ssh", "-V"], "optional", "apt-get install openssh-client", wanted_by)


def _check_machines() -> Iterator[Check]:
    hint = f"for `toolchain board emulate start --kind system`: {INSTALL}"
    if missing := missing_programs():
        yield Check("qemu-system", "optional", f"not installed: {', '.join(missing)}", hint, _SYSTEM)
    else:
        yield check_tool("qemu-system", [PROGRAM, "--version"], "optional", hint, _SYSTEM)


# A plugin's row and all the code that it names, in a process that may crash, hang or end.
_PLUGIN = """
import sys
from importlib import import_module
from toolchain.errors import ToolchainError
rows = import_module(sys.argv[1]).PLUGINS
try:
    for column, reference in rows.load(sys.argv[2]).code.items():
        rows.code(sys.argv[2], column, reference)
except ToolchainError as error:
    raise SystemExit(error.message)
print("loaded")
"""


def _check_plugins() -> Iterator[Check]:
    """Yield a line for each row of a table that an installed package adds."""
    own_formats = {ending.removeprefix(".") for row in formats.FORMATS for ending in row.endings}
    tables: tuple[tuple[ModuleType, PluginRows[Any], str, Collection[str]], ...] = (
        (devices, devices.PLUGINS, "devices of kind {}", devices.OWN),
        (architectures, architectures.PLUGINS, "the architecture {}", architectures.ARCHITECTURES),
        (formats, formats.PLUGINS, "networks in .{} files", own_formats),
    )
    for module, rows, adds, own in tables:
        for plugin in rows.installed:
            name, hint = f"plugin {plugin.package}", plugin.uninstall
            declares = f"{plugin.version}, {adds.format(plugin.row)}"
            if plugin.row in own:
                yield Check(name, "note", f"{declares}: not used, the toolchain has that itself", hint)
                continue
            arguments = (module.__name__, plugin.row)
            check = check_in_a_process(name, _PLUGIN, hint, lambda said: "loaded" in said, *arguments)
            if check.state == "ok":
                yield replace(check, found=declares)
            else:
                yield replace(check, state="optional", found=f"{plugin.version}: {check.found}")


# Counts the drivers that OpenCL's loader finds; the drivers themselves are not called.
_PLATFORMS = """
import ctypes
count = ctypes.c_uint()
code = ctypes.CDLL("libOpenCL.so.1").clGetPlatformIDs(0, None, ctypes.byref(count))
if code or not count.value:
    raise SystemExit(f"libOpenCL.so.1 finds no driver ({code})")
print(f"libOpenCL.so.1 with {count.value} driver{'' if count.value == 1 else 's'}")
"""


def _check_opencl() -> Iterator[Check]:
    hint = "for `--device opencl` on the board local: apt-get install ocl-icd-libopencl1 pocl-opencl-icd"
    check = check_in_a_process("opencl", _PLATFORMS, hint)
    state: State = "ok" if check.state == "ok" else "optional"
    yield replace(check, state=state, wanted_by="--device opencl on local")
    hint = "to simulate kernels, which finds accesses outside their memory: apt-get install oclgrind"
    yield check_tool("oclgrind", ["oclgrind", "--version"], "optional", hint, "make test, make bench-opencl")


_CUDA = """
import sys
from toolchain.devices.cuda_architectures import native_architectures
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
    for part, hint, command in (("compiler", compiler, "on this host"), ("gpu", gpu, "on local")):
        check = check_in_a_process(f"cuda {part}", _CUDA, hint, bool, part)
        state: State = "ok" if check.state == "ok" else "optional"
        yield replace(check, state=state, wanted_by=f"--device cuda {command}")


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


_LOOKS = (
    _check_python,
    _check_pins,
    _check_libraries,
    _check_compilers,
    _check_emulator,
    _check_ssh,
    _check_machines,
    _check_opencl,
    _check_cuda,
    _check_plugins,
    _check_folders,
    _check_records,
    _check_noise,
    check_containers,
)
