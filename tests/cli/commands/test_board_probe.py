"""`toolchain board probe`, and what builds for the board make of it."""

from __future__ import annotations

import json
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.boards.ssh.sshd import sshd
from tests.cli.running import Toolchain
from toolchain.architectures.rates import BoardRates
from toolchain.boards.ssh.hostkeys import fingerprint
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.settings import configuration

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled


def manifest(folder: Path) -> dict[str, object]:
    (bundle,) = folder.glob("*.bundle")
    with tarfile.open(bundle) as archive:
        file = archive.extractfile("manifest.json")
        assert file
        return dict(json.loads(file.read()))


@pytest.mark.usefixtures("state")
def test_this_host_is_measured_shown_and_built_for(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = invoke("board", "probe", "local", "--json")
    assert ran.code == 0, ran.err
    said = dict(ran.document)
    assert said.pop("board") == "local"
    (cluster,) = BoardRates.model_validate(said).clusters
    assert cluster.one.threads == 1
    shown = invoke("board", "show", "local", "--json").document
    assert shown["rates"][0]["gops"] == cluster.one.gops
    assert shown["class_rates"][0]["source"]
    monkeypatch.delenv("TOOLCHAIN_RATES")
    for name, options in (("auto", ()), ("board", ("--rates", "board")), ("class", ("--rates", "class"))):
        built = invoke("build", "zoo:squeezenet_v1.1", "--board", "local", *options, "-o", folder / name)
        assert built.code == 0, built.err
    cores = cluster.model_dump(mode="json")
    assert manifest(folder / "auto")["rates"] == {"of": "board", "cores": cores}
    assert manifest(folder / "class")["rates"] == {"of": "class", "cores": None}
    (auto,), (board,) = ((folder / name).glob("*.so") for name in ("auto", "board"))
    assert auto.read_bytes() == board.read_bytes()
    text = invoke("board", "probe", "local")
    assert text.out.startswith("CORE") and "measured 20" in text.out


@pytest.mark.usefixtures("state")
def test_boards_that_cannot_be_measured(invoke: Toolchain, folder: Path) -> None:
    unknown = invoke("board", "probe", "nowhere")
    assert unknown.code == 2 and unknown.says("no such board")
    for_class = invoke("board", "probe", "rk3399")
    assert for_class.code == 2 and for_class.says("board class")
    refused = invoke("build", "zoo:squeezenet_v1.1", "--board", "rk3399", "--rates", "board", "-o", folder)
    assert refused.code == 2 and refused.says("--rates board: rk3399 is a board class", "--rates class")
    assert (
        invoke("build", "zoo:squeezenet_v1.1", "--board", "local", "--rates", "fast", "-o", folder).code == 2
    )
    configuration.cache_clear()


@pytest.mark.usefixtures("state")
def test_a_board_over_ssh_is_measured_when_it_is_provisioned(
    invoke: Toolchain, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / FILE_NAME).write_text("# mine\n")
    with sshd(tmp_path / "sshd") as server:
        host, key = f"127.0.0.1:{server.port}", fingerprint(server.host_key)
        options = ("--class", "x86_64", "--identity", server.identity, "--name", "far", "--fingerprint", key)
        assert invoke("board", "add", host, *options).code == 0
        assert "rates" not in (folder / FILE_NAME).read_text(), "adding installs nothing"
        with (folder / FILE_NAME).open("a") as file:
            file.write(f'root = "{server.root}"\n')
        configuration.cache_clear()
        provisioned = invoke("board", "provision", "far")
        assert provisioned.code == 0, provisioned.err
        assert "measuring the cores of far" in provisioned.err
        entry = tomllib.loads((folder / FILE_NAME).read_text())["boards"]["far"]
        assert entry["rates"]["clusters"][0]["one"]["gops"]["sse"] > 1
        assert entry["root"] == str(server.root)
        assert "measuring" not in invoke("board", "provision", "far").err, "once is enough"
    # Without the board, by what stands in the file.
    assert invoke("board", "show", "far", "--json").document["rates"]
    monkeypatch.delenv("TOOLCHAIN_RATES")
    assert invoke("build", "zoo:squeezenet_v1.1", "--board", "far", "-o", folder / "out").code == 0
    rates = manifest(folder / "out")["rates"]
    assert isinstance(rates, dict) and rates["of"] == "board"
