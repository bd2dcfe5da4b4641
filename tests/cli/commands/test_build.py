"""`toolchain build`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.bad_inputs import INPUTS
from tests.cli.bad_models import MODELS
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from toolchain.bundles.read import read_bundle
from toolchain.models.options import ModelOptions
from toolchain.models.reading.source import Source, read_source


@pytest.mark.usefixtures("state")
def test_library_and_bundle_are_there_and_the_tasks_counted(invoke: Toolchain, files: Path) -> None:
    ran = invoke("build", "good.onnx", "--board", "rk3399", "-o", "out", "--json")
    assert ran.code == 0, ran.err
    document = ran.document
    assert Path(document["library"]).parent == Path(document["bundle"]).parent == files / "out"
    assert read_bundle(Path(document["bundle"])).manifest.board_class == "rk3399"
    assert document["tasks"]["total"] == 4 and document["tasks"]["tuned"] == 0
    assert [row["source"] for row in document["records"]] == [None] * 4
    ran = invoke("build", "good.onnx", "--board", "rk3399", "-o", "out", "--require-tuned")
    assert ran.code == 1 and ran.says("toolchain tune", "4 of 4 tasks")
    assert all(row["task"] in ran.err for row in document["records"])


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("line", ["build good.onnx -o out", "tasks good.onnx", "tune good.onnx --dry-run"])
def test_model_file_is_read_once(
    invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    from toolchain.models import load

    reads: list[str] = []

    def counted(source: str, options: ModelOptions) -> Source:
        reads.append(source)
        return read_source(source, options)

    monkeypatch.setattr(load, "read_source", counted)
    ran = invoke(*line.split(), "--board", "local")
    assert ran.code == 0, ran.err
    assert (files / "good.onnx").is_file() and reads == ["good.onnx"]


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_build_tells_hits_and_misses_task_by_task(
    invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.building.measured import PROVENANCE
    from toolchain.backends.packed.backend import Packed
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.configuration.settings import configuration
    from toolchain.models.load import load_model
    from toolchain.models.options import ModelOptions
    from toolchain.records.record import Record
    from toolchain.records.store import user_store
    from toolchain.tasks.candidate import record_key
    from toolchain.tasks.options import CodeOptions

    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(files / "data"))
    configuration.cache_clear()
    target = find_target("rk3399")
    backend = Packed(target.profile, CodeOptions())
    one_thread = backend.target(threads=1)
    with backend.lower(load_model("good.onnx", ModelOptions()), one_thread) as network, user_store() as store:
        task = next(task for task in network.tasks if network.space(task).size > 1)
        entry = network.space(task).entry(network.space(task).point(1))
        function = store.add_function(task.workload, task.name, task.definition)
        key = record_key(task.workload, one_thread, target.record_class)
        store.add(Record(key, function, entry.kind, entry.payload, entry.digest, PROVENANCE, (1.25,)))
    arguments = ("build", "good.onnx", "--board", "rk3399", "-o", "out")
    rows = {row["task"]: row for row in invoke(*arguments, "--json").document["records"]}
    hit = rows.pop(task.id)
    assert (hit["source"], hit["how"], hit["board"], hit["ms"], hit["threads"]) == (
        *("own", "other-cpu-or-threads", "local", 1.25, 1),
    )
    assert len(rows) == 3 and not any(row["source"] for row in rows.values())
    told = invoke(*arguments, "-v").out.splitlines()
    assert [line.split()[1] for line in told if line.startswith(task.id)] == ["other-cpu-or-threads"]
    assert sum(line.split()[1] == "none" for line in told[1:5]) == 3
    assert "records: 1 other-cpu-or-threads; 3 tasks without one" in told
    ran = invoke(*arguments, "--require-tuned")
    assert ran.code == 1 and ran.says("3 of 4 tasks") and task.id not in ran.err

    brought = files / "brought.jsonl"
    assert invoke("records", "export", brought.name).code == 0
    monkeypatch.setattr("toolchain.records.lookup.SHIPPED", brought)
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(files / "nothing of one's own"))
    configuration.cache_clear()
    hit = next(row for row in invoke(*arguments, "--json").document["records"] if row["task"] == task.id)
    assert (hit["source"], hit["how"]) == ("shipped", "other-cpu-or-threads")
    without = invoke(*arguments, "--no-shipped", "--json").document["records"]
    assert not any(row["source"] for row in without)


@pytest.mark.parametrize(("model", "code", "says"), MODELS, ids=[row[0] for row in MODELS])
def test_refuses_unusable_models(
    invoke: Toolchain, files: Path, model: str, code: int, says: list[str]
) -> None:
    refused(invoke, files, code, says, "build", model, "--board", "rk3399", "-o", "out")


def test_unsupported_operators_are_all_named(invoke: Toolchain, files: Path) -> None:
    says = ["odd.onnx", "mine.Volume", "volume", "mine.Tidy", "tidy"]
    refused(invoke, files, 2, says, "build", "odd.onnx", "--board", "rk3399", "-o", "out")


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("command", ["build", "tune", "tasks"])
def test_a_model_is_refused_before_anything_slow_begins(
    invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Neither cores are measured nor containers started."""

    def begin(*_arguments: object, **_options: object) -> None:
        pytest.fail("something slow began")

    for place in ("commands.build.container_for", "commands.tune.container_for"):
        monkeypatch.setattr(f"toolchain.cli.{place}", begin)
    for place in ("with_chosen_rates", "with_chosen_rates_of_all"):
        monkeypatch.setattr(f"toolchain.api.rates.{place}", begin)
    says = ["odd.onnx", "mine.Volume", "volume"]
    output = ["-o", "out"] if command == "build" else []
    refused(invoke, files, 2, says, command, "odd.onnx", "--board", "local", *output)


NAMES = [
    (["build", "good.onnx", "--board", "rk3388", "-o", "out"], ["--board rk3388", "rk3399"]),
    (
        ["build", "good.onnx", "--board", "local", "--check", "--engine", "docker", "-o", "out"],
        ["--check runs the sample on this host", "use --engine host"],
    ),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_refuses_unknown_names_and_bad_options(
    invoke: Toolchain, files: Path, arguments: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, *arguments)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("value", "says"), INPUTS, ids=[row[0] for row in INPUTS])
def test_refuses_samples_that_do_not_fit(invoke: Toolchain, files: Path, value: str, says: list[str]) -> None:
    says = [words.replace("--input", "--sample") for words in says]
    refused(invoke, files, 2, says, "build", "good.onnx", "--board", "local", "--sample", value, "-o", "out")
