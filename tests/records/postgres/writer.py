"""Write N records into a database, and say so after each."""

from __future__ import annotations

import sys

from tests.records.samples import put
from toolchain.records.postgres.server import connect
from toolchain.records.store import RecordStore

with RecordStore(connect(sys.argv[1])) as store:
    for number in range(1, int(sys.argv[2]) + 1):
        put(store, float(number), payload="x" * 1000)
        print(float(number), flush=True)
