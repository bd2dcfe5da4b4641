"""What quantising loses in a network's region, by quantizer."""

from __future__ import annotations

from typing import Any

from benchmarks.accelerator.regions import quantised
from toolchain.models.options import POWERS_OF_TWO

GOAL_DB = 3.0


def losses(name: str) -> dict[str, Any]:
    """Return the signal over the noise behind each layer of the region, by quantizer, in dB."""
    costs = {}
    for quantizer in POWERS_OF_TWO:
        made = quantised(name, quantizer).quantised
        if made is None:
            raise AssertionError(f"{name} has no integers")
        costs[quantizer] = made.cost
    last = {quantizer: cost.layers[-1].sqnr_db for quantizer, cost in costs.items()}
    better, worse = POWERS_OF_TWO
    return {
        "kind": "measured on this host: integers by onnxruntime beside floats",
        "network": name,
        "images": costs[better].images,
        "goal_db": GOAL_DB,
        "last_layer_db": last,
        "gained_db": round(last[better] - last[worse], 2),
        "outputs_db": {quantizer: cost.sqnr_db for quantizer, cost in costs.items()},
        "most_clipped": {
            quantizer: max(layer.clipped for layer in cost.layers) for quantizer, cost in costs.items()
        },
        "layers_db": {
            quantizer: {layer.name: layer.sqnr_db for layer in cost.layers}
            for quantizer, cost in costs.items()
        },
    }
