"""Who offers a board and who waits for one. No input or output."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any


@dataclass(frozen=True)
class Offer:
    """One session that a server would take: its address and the key that opens it."""

    connection: object
    host: str
    port: int
    match_key: str


# Hands an offer to whoever waits; False when it has gone.
Deliver = Callable[[Offer], bool]


class Registry:
    """Servers, their offers and the requests that wait, per key of the boards.

    Parameters
    ----------
    expected
        Keys that are listed even while no server has them.
    """

    def __init__(self, expected: Iterable[str] = ()) -> None:
        self.expected = set(expected)
        self._servers: dict[object, tuple[str, str, int]] = {}
        self._offers: dict[str, list[Offer]] = {}
        self._waiting: dict[str, list[tuple[int, int, object, Deliver]]] = {}
        self._order = count()

    def register(self, connection: object, key: str, host: str, port: int) -> None:
        """A server says who it is."""
        self._servers[connection] = (key, host, port)

    def is_registered(self, key: str, port: int) -> bool:
        """Whether a server with this key listens on this port."""
        return any((key, port) == (known, at) for known, _, at in self._servers.values())

    def offer(self, key: str, offer: Offer) -> None:
        """A server is ready; an older offer of its own no longer holds."""
        others = self._offers.get(key, [])
        kept = [o for o in others if (o.connection, o.port) != (offer.connection, offer.port)]
        self._offers[key] = [*kept, offer]
        self._match(key)

    def request(self, connection: object, key: str, priority: int, deliver: Deliver) -> None:
        """A client waits; higher priorities first, then in order of arrival."""
        heapq.heappush(self._waiting.setdefault(key, []), (-priority, next(self._order), connection, deliver))
        self._match(key)

    def waits(self, connection: object) -> int:
        """Return how many requests of a connection wait."""
        return sum(entry[2] is connection for heap in self._waiting.values() for entry in heap)

    def match_keys(self, connection: object) -> list[str]:
        """Return the keys of a server's offers that nobody took."""
        found = (offer for offers in self._offers.values() for offer in offers)
        return [offer.match_key for offer in found if offer.connection is connection]

    def forget(self, connection: object) -> None:
        """A connection has ended: so have its server, its offers and its requests."""
        self._servers.pop(connection, None)
        for key in list(self._offers):
            self._offers[key] = [o for o in self._offers[key] if o.connection is not connection]
        for key, heap in self._waiting.items():
            self._waiting[key] = [entry for entry in heap if entry[2] is not connection]
            heapq.heapify(self._waiting[key])
        self._tidy()

    def summary(self) -> dict[str, Any]:
        """Return what TVM's `query` prints."""
        servers = [
            {"key": f"server:{key}", "addr": [host, port]} for key, host, port in self._servers.values()
        ]
        keys = self.expected | {key for key, _, _ in self._servers.values()}
        keys |= self._offers.keys() | self._waiting.keys()
        queues = {
            key: {"free": len(self._offers.get(key, ())), "pending": len(self._waiting.get(key, ()))}
            for key in sorted(keys)
        }
        return {"queue_info": queues, "server_info": servers}

    def _match(self, key: str) -> None:
        offers, heap = self._offers.get(key, []), self._waiting.get(key, [])
        while offers and heap:
            deliver = heapq.heappop(heap)[3]
            if deliver(offers[0]):
                del offers[0]
        self._tidy()

    def _tidy(self) -> None:
        for table in (self._offers, self._waiting):
            for key in [key for key, entries in table.items() if not entries]:
                del table[key]
