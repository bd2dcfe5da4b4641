"""What `--builders` means, and what it cannot mean."""

from __future__ import annotations

from contextlib import closing

import pytest

from toolchain.configuration.settings import settings
from toolchain.errors import UsageError
from toolchain.tuning.builders.choice import compilers_for


@pytest.mark.parametrize(("builders", "lanes"), [("3", 3), (None, None)])
def test_a_number_is_processes_of_this_host(builders: str | None, lanes: int | None) -> None:
    with closing(compilers_for(builders, print)) as compilers:
        assert compilers.lanes == (lanes or settings().jobs)


@pytest.mark.parametrize("builders", ["0", "-1", "many", "", "tcp://host:1", "99999", "1.5"])
def test_anything_else_is_refused_with_the_word(builders: str) -> None:
    with pytest.raises(UsageError, match=f"--builders {builders}: neither a number"):
        compilers_for(builders, print)
