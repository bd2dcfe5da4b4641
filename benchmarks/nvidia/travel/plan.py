"""The rows of a pack, in the order in which they are worth a GPU's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OURS = "edge-rt"


@dataclass(frozen=True)
class Row:
    """One measurement: a network, a batch and a contender.

    Attributes
    ----------
    entry
        The network's entry in the manifest.
    contender
        The contender's entry: of `ours` of the network, or of the pack's `peers`.
    who
        edge-rt, torch or tensorrt.
    graph
        Whether edge-rt launches the network as a graph.
    rank
        Rows of a lower rank come first.
    """

    entry: dict[str, Any]
    contender: dict[str, Any]
    who: str
    graph: bool
    rank: int

    @property
    def key(self) -> str:
        """A name that no other row has."""
        words = [self.entry["network"], f"batch {self.entry['batch']}", self.who, self.contender["name"]]
        words.append(self.contender["arithmetic"])
        return " / ".join([*words, *([] if self.graph else ["graph off"])])

    @property
    def for_goals(self) -> bool:
        """Whether a goal is about it."""
        return self.rank < _REST_OF_OURS

    def document(self) -> dict[str, Any]:
        """Return what the row's results begin with: all that a report needs."""
        return {
            "weights_bytes": self.entry["weights"]["size"],
            "functions": self.contender.get("functions", {}) if self.graph else {},
            "network": self.entry["network"],
            "batch": self.entry["batch"],
            "who": self.who,
            "name": self.contender["name"],
            "arithmetic": self.contender["arithmetic"],
            "graph": self.graph,
        }


def rows_of(manifest: dict[str, Any], peers: set[str]) -> list[Row]:
    """Return all rows; of peers, those that are here.

    A run may end before the last row, so what the goals are about comes first: ours of the first two networks
    at batch 1, then what they are compared with by torch.compile, mode by mode; then the rest of ours.
    """
    names = list(dict.fromkeys(entry["network"] for entry in manifest["networks"]))
    rows = []
    for entry in manifest["networks"]:
        one, place = entry["batch"] == 1, names.index(entry["network"])
        for ours in entry["ours"]:
            rank = _OURS if one and place < _NETWORKS else _REST_OF_OURS
            rows += [Row(entry, ours, OURS, graph, rank) for graph in (True, False)]
        for peer in manifest["peers"]:
            if peer["who"] in peers:
                rows.append(Row(entry, peer, peer["who"], True, _rank(one, place, peer)))
    return sorted(rows, key=lambda row: row.rank)


_OURS, _COMPILED = 0, 1
_MODES = ("compile default", "compile reduce-overhead", "compile max-autotune")
_REST_OF_OURS = _COMPILED + len(_MODES)
_NETWORKS = 2


def _rank(one: bool, place: int, peer: dict[str, str]) -> int:
    """Return a peer's rank: goals are about the first network, and about the second in float32."""
    if not one:
        return _REST_OF_OURS + 4
    if place == 0 or (place < _NETWORKS and peer["arithmetic"] == "float32"):
        mode = peer["mode"]
        return _COMPILED + _MODES.index(mode) if mode in _MODES else _REST_OF_OURS + 1
    return _REST_OF_OURS + (2 if place < _NETWORKS else 3)
