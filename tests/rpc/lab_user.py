"""Use the lab until the standard input ends: `python -m tests.rpc.lab_user joined|start`."""

from __future__ import annotations

import sys

from toolchain.boards.inventory.lookup import local_board
from toolchain.rpc import lab

if sys.argv[1] == "start":
    print(lab.start([local_board()]).port, flush=True)
else:
    with lab.join([local_board()]) as joined:
        print(joined.port, flush=True)
        sys.stdin.read()
