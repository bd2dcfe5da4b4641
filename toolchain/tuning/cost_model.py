"""What predicts which candidates are worth measuring."""

from __future__ import annotations

import warnings

from tvm.s_tir import meta_schedule as ms


def cost_model() -> ms.CostModel:
    """Return boosted trees, or guesses where the installed xgboost does not work with TVM."""
    try:
        return ms.cost_model.XGBModel()
    except Exception as error:  # TVM uses private names of xgboost: any release may break them
        warnings.warn(f"xgboost does not work with TVM ({error}): candidates are guessed", stacklevel=2)
        return ms.cost_model.RandomModel()
