"""People who sign one file at once: no signature is lost, and who changed something else is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.releases.conftest import Release
from tests.releases.made import ANNA, BERT, CARA, EVE, signer, trust
from tests.releases.signing_often import sign_often
from toolchain.errors import UsageError
from toolchain.releases.signature import add_signatures
from toolchain.releases.signed_release import open_release, release_path
from toolchain.releases.succession import PendingTrust, begin, pending_path, read_pending
from toolchain.releases.trust import read_trust

OURS, THEIRS = [f"our-{n}" for n in range(7)], [f"their-{n}" for n in range(7)]
ALL = [signer(name) for name in (*OURS, *THEIRS)]


def waiting(path: Path) -> PendingTrust:
    found = read_pending(path)
    assert found is not None
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a trust that waits for all three of its root keys."""
    path = tmp_path / "trust.json"
    begin(path, trust([ANNA, BERT, CARA], [EVE], root_threshold=3), None).settle()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["release", "trust"])
def test_two_processes_sign_at_once(kind: str, signed: Release, tmp_path: Path) -> None:
    if kind == "release":
        file = signed()
    else:
        file = tmp_path / "trust.json"
        begin(file, trust(ALL, ALL, root_threshold=len(ALL)), None).settle()
    command = [sys.executable, "-m", "tests.releases.signing_often", str(file), *THEIRS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
        sign_often(file, OURS)
        assert other.wait(60) == 0
    envelope = open_release(file).envelope if kind == "release" else read_trust(file).envelopes[0]
    assert envelope.signers({each.key for each in ALL}) == {each.key for each in ALL}


def test_a_signature_that_came_meanwhile_is_kept(path: Path, signed: Release) -> None:
    ours, theirs = waiting(path), waiting(path)
    theirs.signed_by([BERT]).settle()
    assert [each.have for each in ours.signed_by([ANNA]).settle().missing] == [2]
    assert waiting(path).signed_by([CARA]).settle().missing == []
    release = open_release(signed())
    add_signatures(release, [BERT])
    add_signatures(release, [ANNA])
    assert len(open_release(release.bundle).envelope.signatures) == 2


def test_others_may_have_completed_the_trust(path: Path) -> None:
    ours = waiting(path).signed_by([ANNA])
    waiting(path).signed_by([ANNA, BERT, CARA]).settle()
    before = path.read_bytes()
    assert ours.settle().missing == []
    assert path.read_bytes() == before and not pending_path(path).exists()


def test_another_change_that_came_meanwhile_is_not_overwritten(path: Path) -> None:
    ours = waiting(path).signed_by([ANNA])
    pending_path(path).unlink()
    with pytest.raises(UsageError, match="changed by another process"):
        ours.settle()
    begin(path, trust([EVE], [EVE]), None).signed_by([EVE]).settle()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="changed by another process"):
        ours.settle()
    assert path.read_bytes() == before


def test_a_release_that_another_made_or_removed_is_left_alone(signed: Release) -> None:
    release = open_release(signed(ANNA))
    theirs = release_path(signed(EVE, version="3.0.0"))
    before = theirs.read_bytes()
    with pytest.raises(UsageError, match="was changed by another process"):
        add_signatures(release, [BERT])
    assert theirs.read_bytes() == before
    theirs.unlink()
    with pytest.raises(UsageError, match="was removed by another process"):
        add_signatures(release, [BERT])
    assert not theirs.exists()
