"""Harnesses that feed our readers with what no honest peer says.

One file per harness, `test_NAME.py`: its `harness()` is a context manager that yields `attempt(random)`,
which makes one case out of a `random.Random`, tries it, and raises AssertionError if something is wrong. A
test in the same file tries a few hundred (`make test`); `make fuzz` tries each harness for FUZZ_S seconds.
`loop.py` is what they share: a failure names its seed and how to see it again, such as

    .venv/bin/python -m tests.fuzz session --seed 4711 --case 38
"""
