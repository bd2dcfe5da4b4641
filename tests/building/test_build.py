"""Building: the right numbers, the same bytes, and clear refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from elftools.elf.elffile import ELFFile

from tests.building.measured import check_outputs
from tests.building.network import main as build_network
from tests.building.small import small
from tests.models.graphs import tensor_info
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import BuildResult, build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.cli.commands.build import show
from toolchain.errors import ToolchainError, UsageError
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_library_matches_onnxruntime(model: Model, built: BuildResult) -> None:
    check_outputs(built.library, model)


def test_build_prints_decisions_and_files(built: BuildResult, capsys: pytest.CaptureFixture[str]) -> None:
    show(built)
    tasks, records, code, *rest = capsys.readouterr().out.splitlines()
    assert tasks == "tasks: 8 total, 0 with a record, 0 improved"
    assert records == "records: none; 8 tasks without one"
    counts = [each.split(" ", 1) for each in code.removeprefix("code: ").split(", ")]
    made = {rule: int(count) for count, rule in counts}
    assert sum(made.values()) == 8 and made["direct"] > 0
    assert rest[0] == "sample: seeded, normal floats"
    assert rest[1] == "reference: onnxruntime on the file as it is given"
    assert rest[3:] == [f"library: {built.library}", f"bundle: {built.bundle}"]


def test_the_expected_output_is_not_ours(model: Model, built: BuildResult) -> None:
    bundle = read_bundle(built.bundle)
    session = onnxruntime.InferenceSession(model.source)  # the user's file, as it is
    for ours, theirs in zip(bundle.expected.values(), session.run(None, bundle.sample), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_no_path_of_this_machine_is_in_the_library_or_bundle(built: BuildResult, model: Model) -> None:
    for content in (built.library.read_bytes(), built.bundle.read_bytes()):
        for path in (ROOT, Path.home(), Path(model.source).parent, built.library.parent, Path("/tmp")):
            assert str(path).encode() not in content


@pytest.mark.slow
def test_the_same_inputs_give_the_same_bytes_in_other_folders_and_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_network(tmp_path / "here")
    found = [json.loads(capsys.readouterr().out)]
    for seed in ("1", "4242"):
        folder = tmp_path / f"elsewhere-{seed}"
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.building.network", str(folder / "deep" / "er")],
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo"},
            stdout=subprocess.PIPE,
            timeout=120,
            check=True,
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == found[2]
    assert found[0]["x86_64"]["bundle"] == found[0]["x86_64"]["on disk"]
    assert found[0]["x86_64"]["workloads"] == found[0]["rk3399"]["workloads"]


def test_a_tar_holds_the_objects_alone(model: Model, tmp_path: Path) -> None:
    result = build(model, find_target("rk3399"), None, tmp_path, BuildOptions(format="tar"))
    assert result.library.name == "residual-rk3399.tar"
    with tarfile.open(result.library) as tar:
        members = tar.getmembers()
        names = [member.name for member in members]
        assert names == ["lib0.o", *(f"kernel{number}.o" for number in range(len(names) - 2)), "devc.o"]
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {
            (0, 0, 0, "", "", 0o644)
        }
    shutil.unpack_archive(result.library, tmp_path / "objects")
    bundle = read_bundle(result.bundle)
    assert bundle.manifest.format == "tar"
    assert bundle.library == result.library.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "objects",
        "residual-rk3399.bundle",
        "residual-rk3399.tar",
    ]


def test_a_library_for_another_machine_and_cluster(model: Model, tmp_path: Path) -> None:
    result = build(model, find_target("rk3399"), None, tmp_path, BuildOptions(cluster="cortex-a53"))
    with result.library.open("rb") as file:
        assert ELFFile(file)["e_machine"] == "EM_AARCH64"
    manifest = read_bundle(result.bundle).manifest
    assert (manifest.arch, manifest.cluster, manifest.threads) == ("aarch64", "cortex-a53", 4)
    assert manifest.requires == ("asimd", "fp")


def test_nhwc_computes_the_same(model: Model, tmp_path: Path) -> None:
    options = BuildOptions(code=CodeOptions(layout="NHWC"))
    result = build(model, find_target("local"), None, tmp_path, options)
    check_outputs(result.library, model)
    assert read_bundle(result.bundle).manifest.layout == "NHWC"
    assert any(decision.task.shapes[0] == (1, 6, 6, 8) for decision in result.decisions)


def test_an_unknown_cluster_or_linker_is_refused(model: Model, tmp_path: Path) -> None:
    steps: list[str] = []
    with pytest.raises(UsageError, match="--cluster cortex-a76"):
        build(model, find_target("rk3399"), None, tmp_path, BuildOptions(cluster="cortex-a76"), steps.append)
    assert not steps  # before anything that takes its time
    with pytest.raises(UsageError, match="--linker gold"):
        build(model, find_target("rk3399"), None, tmp_path, BuildOptions(linker="gold"))
    assert list(tmp_path.iterdir()) == []


def test_refuses_unwritable_folder(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    steps: list[str] = []
    with pytest.raises(ToolchainError, match=r"cannot write .*file/.*residual-x86_64.bundle") as raised:
        build(model, find_target("x86_64"), None, tmp_path / "file", progress=steps.append)
    assert raised.value.exit_code == 1 and steps == [], "nothing was compiled for it"


@pytest.mark.slow
@pytest.mark.parametrize("fits", ["nothing", "the library alone"])
def test_a_full_disk_leaves_nothing_half_written(
    fits: str, model: Model, built: BuildResult, tmp_path: Path
) -> None:
    """A limit on the size of files stands for the disk: the same errors, at the same places."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from toolchain.boards.inventory.lookup import find_target\n"
        "from toolchain.building.build import build\n"
        "from toolchain.errors import ToolchainError\n"
        "from toolchain.models.load import load_model; from toolchain.models.options import ModelOptions\n"
        "import toolchain.files.atomic as atomic\n"
        "model = load_model(sys.argv[1], ModelOptions()); out = Path(sys.argv[2])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "limit = int(sys.argv[3]); real = atomic.replacing\n"
        "def full(*arguments):\n"  # the disk fills up between the compiler's files and ours
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)); return real(*arguments)\n"
        "atomic.replacing = full\n"
        "try: build(model, find_target('local'), None, out)\n"
        "except ToolchainError as error: print(error); sys.exit(error.exit_code)\n"
    )
    out = tmp_path / "out"
    sizes = (built.library.stat().st_size, built.bundle.stat().st_size)
    limit = 4096 if fits == "nothing" else sum(sizes) // 2
    suffix = "so" if fits == "nothing" else "bundle"
    done = subprocess.run(
        [sys.executable, "-c", code, model.source, str(out), str(limit)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert f"cannot write {out}/{built.library.stem}.{suffix}: File too large" in done.stdout
    assert list(out.iterdir()) == []


def test_sorting_is_done_by_the_runtime(tmp_path: Path) -> None:
    node = onnx.helper.make_node("TopK", ["x", "k"], ["values", "places"])
    outputs = [tensor_info("values", (1, 3)), tensor_info("places", (1, 3), onnx.TensorProto.INT64)]
    model = small(tmp_path, [node], outputs)
    result = build(model, find_target("local"), None, tmp_path / "out")
    check_outputs(result.library, model)


def test_a_network_that_computes_nothing_is_refused(tmp_path: Path) -> None:
    model = small(tmp_path, [onnx.helper.make_node("Identity", ["x"], ["y"])], [tensor_info("y", (1, 8))])
    with pytest.raises(UsageError, match=r"small\.onnx: nothing is computed from the inputs"):
        build(model, find_target("local"), None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_shape_that_depends_on_the_data_is_refused(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Reshape", ["x", "row"], ["scores"]),
        onnx.helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["y"]),
    ]
    with pytest.raises(UsageError, match="depends on the data"):
        small(tmp_path, nodes, [tensor_info("y", ("n", 3), onnx.TensorProto.INT64)])


# Records of schedules, which unpacked layouts have; those of choices: tests/backends/packed/test_records.py.


PLAIN = BuildOptions(code=CodeOptions(layout="NCHW"))


def test_a_network_of_one_output_and_no_weights(tmp_path: Path) -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        "tiny",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])],
    )
    path = tmp_path / "tiny.onnx"
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path
    )
    loaded = load_model(str(path), ModelOptions())
    check_outputs(build(loaded, find_target("local"), None, tmp_path).library, loaded)
