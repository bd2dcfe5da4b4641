"""What docs/policies.md promises, tried with the files that the first version wrote."""

from __future__ import annotations

import inspect
import json
import shutil
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import toolchain as package
from tests.bundles.test_refusals import changing, rebuilt
from tests.cli.running import Ran, Toolchain
from tests.distribution.kept import KEPT
from toolchain.bundles.manifest import SCHEMA_VERSION
from toolchain.bundles.read import read_bundle
from toolchain.cli.root import EPILOG
from toolchain.configuration.settings import read_configuration
from toolchain.errors import CheckError, MissingError, ToolchainError, UsageError
from toolchain.records.exchange import read_records
from toolchain.runtime import ensure_runtime
from toolchain.runtime.fingerprint import NATIVE
from tools.distribution.checking import write_network
from tools.distribution.documents import TYPED, key_paths
from tools.distribution.keep import commands, interface, parameters, prototypes, structs
from tools.distribution.sent import ARCH, Sent
from tools.distribution.stream import Conversation, keys, lost

LARGEST = 300_000


def kept(name: str) -> dict[str, list[str]]:
    return dict(json.loads((KEPT / name).read_text()))


@pytest.fixture
def project(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of commands with the kept files in it, and state of the test's own."""
    for file in ("records.jsonl", "small.bundle", "small.bundle.release", "trust.json", "release-key.pub"):
        shutil.copyfile(KEPT / file, folder / file)
    write_network(folder / "tiny.onnx")
    np.save(folder / "x.npy", np.ones((1, 3, 16, 16), np.float32))
    for kind in ("DATA", "STATE"):
        monkeypatch.setenv(f"TOOLCHAIN_{kind}_DIR", str(tmp_path / kind.lower()))
    return folder


def test_the_kept_files_are_small_and_hold_no_secret() -> None:
    files = [path for path in KEPT.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LARGEST
    for path in files:
        assert b"PRIVATE KEY" not in path.read_bytes(), path


def test_records_are_imported_and_kept(project: Path, invoke: Toolchain) -> None:
    functions, records = read_records(KEPT / "records.jsonl")
    assert records and functions
    assert {record.provenance.tool for record in records} == {KEPT.name}
    ran = invoke("records", "import", project / "records.jsonl", "--json")
    assert ran.code == 0 and ran.document["records"] == len(records), ran.err
    listed = invoke("records", "list", "--json").document
    assert len(listed) == len(records)
    assert invoke("records", "best", "--json").document
    ran = invoke("records", "export", "again.jsonl", "--json")
    assert set(read_records(project / "again.jsonl")[1]) == set(records)


def test_newer_records_are_refused_by_their_version(project: Path, invoke: Toolchain) -> None:
    lines = (KEPT / "records.jsonl").read_text().splitlines(keepends=True)
    newer = json.dumps(json.loads(lines[0]) | {"version": 99})
    (project / "newer.jsonl").write_text("".join([f"{newer}\n", *lines[1:]]))
    ran = invoke("records", "import", "newer.jsonl")
    assert ran.code == UsageError.exit_code and ran.says("version 99", "nothing was imported")


def test_a_bundle_says_today_what_it_said_then() -> None:
    bundle = read_bundle(KEPT / "small.bundle")
    assert bundle.manifest.tool_version == KEPT.name and list(bundle.expected) == ["y"]
    with tarfile.open(KEPT / "small.bundle") as archive:
        written = json.load(archive.extractfile("manifest.json"))
    today = json.loads(bundle.manifest.to_json())
    assert {key: today[key] for key in written if key != "schema_version"} == {
        key: value for key, value in written.items() if key != "schema_version"
    }
    assert written["schema_version"] <= SCHEMA_VERSION


def test_a_newer_bundle_is_refused_by_its_version(project: Path, invoke: Toolchain) -> None:
    newer = rebuilt(project / "small.bundle", manifest=changing(schema_version=99))
    (project / "newer.bundle").write_bytes(newer)
    ran = invoke("verify", "newer.bundle", "--board", "local")
    assert ran.code == UsageError.exit_code
    assert ran.says(
        "made by a newer toolchain", "schema_version is 99", "pip install --upgrade edge-toolchain"
    )


def test_a_signed_release_is_verified_by_its_trust_and_by_its_key(project: Path, invoke: Toolchain) -> None:
    for trusted in ("trust.json", "release-key.pub"):
        ran = invoke("release", "verify", "small.bundle", "--trust", trusted, "--json")
        assert ran.code == 0, ran.err
    changed = bytearray((project / "small.bundle").read_bytes())
    changed[len(changed) // 2] ^= 1
    (project / "small.bundle").write_bytes(changed)
    ran = invoke("release", "verify", "small.bundle", "--trust", "trust.json")
    assert ran.code == CheckError.exit_code


def test_a_trust_file_is_read(project: Path, invoke: Toolchain) -> None:
    shown = invoke("release", "trust", "show", project / "trust.json", "--json")
    assert shown.code == 0 and shown.document["version"] == 1, shown.err


def test_every_key_of_the_configuration_is_read() -> None:
    found = read_configuration(KEPT, {"TOOLCHAIN_CONFIG": str(KEPT / "toolchain.toml")})
    assert found.file == KEPT / "toolchain.toml"
    written = set(tomllib.loads(found.file.read_text())) & found.origins.keys()
    assert len(written) == 16 and {found.origins[key] for key in written} == {str(found.file)}, found.origins
    assert found.settings.board == "bench-pc" and found.settings.jobs == 3
    assert found.boards["bench-pc"].device == "cuda:1"
    assert found.boards["rock"].port == 2222 and found.boards["rock"].groups == ("all",)


def test_commands_and_their_options_are_there() -> None:
    today = commands()
    for command, options in kept("commands.json").items():
        assert command in today, f"{command} is gone"
        assert set(options) <= set(today[command]), f"{command} lost an option"


def test_exit_codes_mean_what_they_meant() -> None:
    codes = {kind: kind.exit_code for kind in (ToolchainError, UsageError, MissingError, CheckError)}
    assert codes == {ToolchainError: 1, UsageError: 2, MissingError: 3, CheckError: 4}
    for text in (
        "0 done",
        "1 the work began and failed",
        "2 what was typed",
        "3 this machine lacks",
        "4 a bundle fails",
    ):
        assert text in EPILOG


def test_the_python_interface_has_its_names() -> None:
    assert not broken(package, kept("api.json"))


def broken(module: ModuleType, promised: dict[str, list[str]]) -> list[str]:
    """Return what of an interface is gone, or cannot be called as before."""
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = [name for name in promised if name not in getattr(module, "__all__", [])]
    for name in promised.keys() - set(found):
        today = parameters(getattr(module, name))
        lost = set(promised[name]) - {each.name for each in today}
        needed = {each.name for each in today if each.default is each.empty and each.kind not in starred}
        if lost or needed - set(promised[name]):
            found.append(name)
    return sorted(found)


def test_a_change_that_breaks_callers_is_noticed() -> None:
    module = ModuleType("module")
    module.__dict__.update(
        {"__all__": ["build"], "build": lambda model, board, out=None: (model, board, out)}
    )
    before = interface(module)
    assert before == {"build": ["model", "board", "out"]} and not broken(module, before)
    for changed in (
        lambda model, board: (model, board),
        lambda model, board, how, out=None: (model, board, how, out),
    ):
        module.__dict__["build"] = changed
        assert broken(module, before) == ["build"]
    module.__dict__["build"] = lambda model, board, out=None, more=0: (model, board, out, more)
    assert not broken(module, before)
    assert broken(module, {"tune": []}) == ["tune"]


def test_the_c_interface_has_its_declarations() -> None:
    first, now = ((folder / "edge_rt.h").read_text() for folder in (KEPT, NATIVE))
    before, today = prototypes(first), prototypes(now)
    assert {"int edge_run(edge_library* library)", "EDGE_BUSY = 75"} <= before
    assert before <= today, before - today
    assert structs(first).keys() == {"edge_options", "edge_tensor"}
    for name, fields in structs(first).items():
        assert structs(now)[name][: len(fields)] == fields, "new fields come at the end"


@pytest.mark.slow
def test_documents_have_their_keys(project: Path, invoke: Toolchain, toolchain: Toolchain) -> None:
    promised = kept("documents.json")
    assert (project / "small.bundle").is_file()
    assert set(promised) == {" ".join(typed) for typed in TYPED}
    for typed in TYPED:
        ran: Ran = (toolchain if typed[0] in ("doctor", "tune") else invoke)(*typed, "--json")
        missing = set(promised[" ".join(typed)]) - set(key_paths(ran.document))
        assert not missing, f"toolchain {' '.join(typed)} --json lost {sorted(missing)}"
    verified = json.loads(invoke("verify", "small.bundle", "--board", "local", "--json").out)
    assert verified["passed"] is True, "a bundle of the first version runs on today's edge-rt"


@pytest.mark.slow
def test_edge_rt_takes_what_hosts_sent_and_answers_as_it_did(tmp_path: Path) -> None:
    # With another TVM, edge-rt refuses these releases: take the files of the first version that has it.
    kept = json.loads((KEPT / "stream.json").read_text())
    sent = Sent.from_json(kept["sent"])
    today = Conversation(ensure_runtime(ARCH).program, tmp_path, sent).hold()
    assert kept["answers"].keys() <= today.keys()
    assert not lost(kept["answers"], today)


def test_a_change_of_an_answer_is_noticed() -> None:
    steps = [{"step": "preflight"}, {"step": "check"}]
    last = {"end": "refused", "seconds": 1, "cause": {"code": "digest", "message": "y"}, "test": None}

    def answer(*lines: object, code: int = 4) -> dict[str, dict[str, object]]:
        return {"install": {"code": code, "says": keys(list(lines))}}

    before = answer(*steps, last)
    assert not lost(before, answer(*steps, {**last, "seconds": 2, "more": [1]}))
    for changed in (
        answer(*steps, last, code=1),
        answer(*steps, {"step": "another"}, last),
        answer(*steps, {key: value for key, value in last.items() if key != "test"}),
        answer(*steps, {**last, "end": "declined"}),
        answer(*steps, {**last, "seconds": "1"}),
        answer(*steps, {**last, "cause": {"code": "digest"}}),
    ):
        assert len(lost(before, changed)) == 1, changed
