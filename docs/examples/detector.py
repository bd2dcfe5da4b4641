"""A detector whose network ends before its NonMaxSuppression: detector.py LIBRARY SHAPE INPUT.

    python3 detector.py detector-rk3399.so 1x3x320x320 input.bin

The network was built with `--outputs BOXES,SCORES`: boxes [1, N, 4] by two corners, scores [1, classes, N].
Prints class, score and corners of each object, one on a line. Needs `edge_example.py` beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from edge_example import run

LEAST_SCORE = 0.3
MOST_OVERLAP = 0.5  # of two boxes of a class that are kept, as intersection over union
MOST_OBJECTS = 100  # of a class


def area(box: Sequence[float]) -> float:
    """Return the area of a box by two opposite corners."""
    return abs(box[2] - box[0]) * abs(box[3] - box[1])


def overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Return intersection over union of two boxes; any two opposite corners will do."""
    inner = 1.0
    for i in (0, 1):
        low = max(min(a[i], a[i + 2]), min(b[i], b[i + 2]))
        inner *= max(0.0, min(max(a[i], a[i + 2]), max(b[i], b[i + 2])) - low)
    both = area(a) + area(b) - inner
    return inner / both if both > 0 else 0.0


def objects(boxes: Sequence[float], scores: Sequence[float]) -> Iterator[tuple[int, float, Sequence[float]]]:
    """Yield (class, score, box) of what is kept: of boxes that overlap the one with the best score."""
    count = len(boxes) // 4
    box = [boxes[4 * i : 4 * i + 4] for i in range(count)]
    for kind in range(len(scores) // count):
        score = scores[kind * count : (kind + 1) * count]
        kept: list[int] = []
        for i in sorted(range(count), key=lambda i: -score[i]):
            if score[i] <= LEAST_SCORE or len(kept) == MOST_OBJECTS:
                break
            if all(overlap(box[i], box[j]) <= MOST_OVERLAP for j in kept):
                kept.append(i)
                yield kind, score[i], box[i]


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: detector.py LIBRARY SHAPE INPUT")
    dimensions = [int(extent) for extent in sys.argv[2].split("x")]
    for kind, score, corners in objects(*run(sys.argv[1], dimensions, Path(sys.argv[3]).read_bytes())):
        print(kind, *(f"{value:.9g}" for value in (score, *corners)))
