"""Images of a user's own: what is wrong with them is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toolchain.errors import UsageError
from toolchain.models.options import parse_calibration
from toolchain.models.quantising.calibration import given, seeded
from toolchain.models.spec import TensorSpec

SPECS = (TensorSpec("data", (2, 3, 4), "float32"), TensorSpec("scale", (2,), "float32"))
GOOD = {"data": np.zeros((4, 3, 4), np.float32), "scale": np.ones(4, np.float32)}


def test_images_are_cut_into_batches(tmp_path: Path) -> None:
    sets = given(SPECS, written(tmp_path, GOOD))
    assert len(sets) == 2 and all(each["data"].shape == (2, 3, 4) for each in sets)


def test_a_scalar_has_a_number_for_each_image(tmp_path: Path) -> None:
    specs = [TensorSpec("data", (1, 3), "float32"), TensorSpec("rate", (), "float32")]
    arrays = {"data": np.zeros((2, 3), np.float32), "rate": np.array([8.0, 16.0], np.float32)}
    sets = given(specs, written(tmp_path, arrays))
    assert [(each["rate"].shape, float(each["rate"])) for each in sets] == [((), 8.0), ((), 16.0)]


def test_names_and_folders_may_hold_equals_signs(tmp_path: Path) -> None:
    """The command line was split at the last one."""
    folder = tmp_path / "run=3"
    folder.mkdir()
    np.save(folder / "x.npy", GOOD["data"])
    (images,) = given([TensorSpec("a=b", (4, 3, 4), "float32")], parse_calibration([f"a=b={folder}/x.npy"]))
    assert images["a=b"].shape == (4, 3, 4)


def written(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, Path]:
    files = {name: folder / f"{name}.npy" for name in arrays}
    for name, array in arrays.items():
        np.save(files[name], array)
    return files


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data": np.zeros((4, 3, 5), np.float32)}, r"float32\[4, 3, 5\], the input data \[2, 3, 4\]"),
        ({"data": np.zeros((4, 3, 4), np.float64)}, r"is float64\[4, 3, 4\]"),
        ({"scale": np.float32(1)}, r"is float32\[\], the input scale \[2\]"),
        ({"data": np.zeros((3, 3, 4), np.float32)}, "holds 3 images, not batches of 2"),
        ({"data": np.zeros((0, 3, 4), np.float32)}, "holds 0 images"),
        ({"data": np.full((4, 3, 4), np.nan, np.float32)}, "NaN or infinity in 48 of 48"),
        ({"data": np.zeros((6, 3, 4), np.float32)}, "unlike numbers of batches: .*3.*2"),
        ({"other": np.zeros(4, np.float32)}, "--calibrate other: the network has no input of this name"),
    ],
)
def test_refuses_images_that_do_not_fit(changed: dict[str, np.ndarray], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        given(SPECS, written(tmp_path, GOOD | changed))
    assert caught.value.hint


def test_an_input_without_images(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="images for the input 'scale' are missing") as caught:
        given(SPECS, written(tmp_path, {"data": GOOD["data"]}))
    assert "--calibrate scale=FILE.npy" in caught.value.hint


def test_refuses_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        given(SPECS, {"data": tmp_path / "none.npy", "scale": tmp_path / "none.npy"})


def test_seeded_images_are_reproducible() -> None:
    first, second = (seeded(SPECS, [7])[0]["data"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
