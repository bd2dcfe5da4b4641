"""JSON that is what a reader asks for, and then in some place is not."""

from __future__ import annotations

from random import Random
from typing import Any

WORDS = (
    *("", "x", "0", "-1", "nan", "true", "/", "..", "x" * 3000),
    *("\x1b[31m", "a\nb", "\u202e", "\ud800", "\0", "\x9b"),
)
NUMBERS = (0, 1, -1, 2, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**300, 0.5, -0.0, 1e300, 1e-300)
ODD = (None, True, False, float("nan"), float("inf"), -float("inf"))


def any_json(random: Random) -> Any:
    """Return a value of any kind."""
    match random.randrange(6):
        case 0:
            return random.choice(WORDS)
        case 1:
            return random.choice(NUMBERS)
        case 2:
            return random.choice(ODD)
        case 3:
            return [any_json(random) for _ in range(random.randrange(4))]
        case 4:
            return {random.choice(WORDS): any_json(random) for _ in range(random.randrange(4))}
        case _:
            deep: Any = []
            for _ in range(random.choice((1, 10, 150, 300))):
                deep = [deep]
            return deep


def mutated_json(random: Random, value: Any) -> Any:
    """Return the value with something wrong in one place, at any depth."""
    if not isinstance(value, dict | list) and random.random() < 0.6:  # of its kind, more or less
        return random.choice(WORDS if isinstance(value, str) else (*NUMBERS, *ODD))
    if random.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return any_json(random)
    if isinstance(value, dict):
        key = random.choice(list(value))
        match random.randrange(8):
            case 0:
                return {name: item for name, item in value.items() if name != key}
            case 1:
                return {**value, random.choice(WORDS): any_json(random)}
            case _:
                return {**value, key: mutated_json(random, value[key])}
    at = random.randrange(len(value))
    match random.randrange(8):
        case 0:
            return value[:at] + value[at + 1 :]
        case 1:
            return value[:at] + value[at:] * random.choice((2, 50))
        case _:
            return [*value[:at], mutated_json(random, value[at]), *value[at + 1 :]]
