"""Parameters of functions that are measured alone."""

from __future__ import annotations

import pickle

import numpy as np

from toolchain.tasks.candidate import Parameter


def test_how_a_weight_is_packed_stays_in_its_process() -> None:
    weight = Parameter((2, 3), "float32", value=np.ones((2, 3)), pack=lambda value: value.T)
    sent = pickle.loads(pickle.dumps(weight))
    assert sent.pack is None and weight.pack is not None
    assert (sent.shape, sent.dtype, sent.value.tolist()) == ((2, 3), "float32", np.ones((2, 3)).tolist())
