"""Matches servers with clients' requests, without input or output.

A server registers under the key of its board, or as `KEY@BOARD` to say which one it is; a client
asks for any board of a key, or for `KEY@BOARD`. TVM's own clients and servers know plain keys only.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any


@dataclass(frozen=True)
class Offer:
    """A server's offer of one session: its address and the session's key."""

    connection: object
    host: str
    port: int
    match_key: str
    board: str = ""


@dataclass(frozen=True)
class Lease:
    """The lease of a server to a client; it ends when the server makes a new offer.

    Attributes
    ----------
    board
        Empty if the server did not name it.
    user
        The client's description of itself.
    since, until
        Seconds of the registry's clock; after `until` the lease may be revoked.
    """

    key: str
    board: str
    user: str
    since: float
    until: float


@dataclass(frozen=True)
class Waiting:
    """A client's request that no server has answered yet; `since` is in seconds of the registry's clock.

    Attributes
    ----------
    board
        Empty if any board of the key will do.
    user
        The client's description of itself.
    """

    key: str
    board: str
    user: str
    since: float


# Delivers an offer to a waiting client; returns False if the client has gone.
Deliver = Callable[[Offer], bool]


@dataclass(order=True)
class _Request:
    priority: int  # smaller ones first
    order: int
    connection: object
    board: str
    deliver: Deliver
    user: str
    ttl_s: float
    since: float


class Registry:
    """Servers, their offers, their leases and the pending requests, per key of the boards.

    Parameters
    ----------
    clock
        Seconds since anything.

    Attributes
    ----------
    expected
        Keys that are listed even while no server has them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.expected: set[str] = set()
        self._clock = clock
        self._servers: dict[object, tuple[str, str, str, int]] = {}
        self._offers: dict[str, list[Offer]] = {}
        self._waiting: dict[str, list[_Request]] = {}
        self._leases: dict[tuple[object, int], Lease] = {}
        self._order = count()

    def register(self, connection: object, key: str, host: str, port: int) -> None:
        """Register a server."""
        self._servers[connection] = (*_split(key), host, port)

    def is_registered(self, key: str, board: str) -> bool:
        """Whether the server of this board is registered."""
        return any((key, board) == server[:2] for server in self._servers.values())

    def offer(self, key: str, offer: Offer) -> None:
        """Add a server's offer, which replaces its older offer and ends its lease."""
        key, board = _split(key)
        self._leases.pop((offer.connection, offer.port), None)
        others = self._offers.get(key, [])
        kept = [o for o in others if (o.connection, o.port) != (offer.connection, offer.port)]
        new = Offer(offer.connection, offer.host, offer.port, offer.match_key, board)
        self._offers[key] = [*kept, new]
        self._match(key)

    def request(
        self, connection: object, key: str, priority: int, deliver: Deliver, user: str, ttl_s: float
    ) -> None:
        """Add a client's request; higher priorities are served first, then in order of arrival.

        Parameters
        ----------
        user, ttl_s
            The client's description of itself, and the duration of its lease in seconds.
        """
        key, board = _split(key)
        order, now = next(self._order), self._clock()
        request = _Request(-priority, order, connection, board, deliver, user, ttl_s, now)
        insort(self._waiting.setdefault(key, []), request)
        self._match(key)

    def waits(self, connection: object) -> int:
        """Return the number of pending requests of a connection."""
        return sum(request.connection is connection for queue in self._waiting.values() for request in queue)

    def match_keys(self, connection: object) -> list[str]:
        """Return the match keys of offers that came by this connection and that no client has taken yet."""
        found = (offer for offers in self._offers.values() for offer in offers)
        return [offer.match_key for offer in found if offer.connection is connection]

    def forget(self, connection: object) -> None:
        """Remove a closed connection with its requests, its server, and the server's offers and leases."""
        self._servers.pop(connection, None)
        for key in list(self._offers):
            self._offers[key] = [o for o in self._offers[key] if o.connection is not connection]
        for key, queue in self._waiting.items():
            self._waiting[key] = [request for request in queue if request.connection is not connection]
        self._leases = {at: lease for at, lease in self._leases.items() if at[0] is not connection}
        self._tidy()

    def leases(self) -> list[Lease]:
        """Return the current leases, the oldest first."""
        return sorted(self._leases.values(), key=lambda lease: lease.since)

    def waiting(self) -> list[Waiting]:
        """Return the pending requests: per key in the order in which they will be served."""
        return [
            Waiting(key, request.board, request.user, request.since)
            for key, queue in self._waiting.items()
            for request in queue
        ]

    def overdue(self) -> list[Lease]:
        """Remove the expired leases and return them."""
        now = self._clock()
        late = {at: lease for at, lease in self._leases.items() if lease.until < now}
        for at in late:
            del self._leases[at]
        return list(late.values())

    def known_keys(self) -> set[str]:
        """Return every key that is registered, requested or expected."""
        known = self.expected | {key for key, *_ in self._servers.values()}
        return known | self._offers.keys() | self._waiting.keys()

    def summary(self) -> dict[str, Any]:
        """Return the document that TVM's `query` prints, with the boards of servers added."""
        servers = [
            {"key": f"server:{key}", "addr": [host, port], "board": board}
            for key, board, host, port in self._servers.values()
        ]
        queues = {
            key: {"free": len(self._offers.get(key, ())), "pending": len(self._waiting.get(key, ()))}
            for key in sorted(self.known_keys())
        }
        return {"queue_info": queues, "server_info": servers}

    def _match(self, key: str) -> None:
        for request in list(self._waiting.get(key, ())):
            offers = self._offers.get(key, [])
            offer = next((o for o in offers if request.board in ("", o.board)), None)
            if offer is None:
                continue
            self._waiting[key].remove(request)
            if request.deliver(offer):
                offers.remove(offer)
                now = self._clock()
                lease = Lease(key, offer.board, request.user, now, now + request.ttl_s)
                self._leases[offer.connection, offer.port] = lease
        self._tidy()

    def _tidy(self) -> None:
        for table in (self._offers, self._waiting):
            for key in [key for key, entries in table.items() if not entries]:
                del table[key]


def _split(key: str) -> tuple[str, str]:
    base, _, board = key.partition("@")
    return base, board
