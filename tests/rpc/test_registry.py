"""Servers, requests and leases: nothing is given twice, and nobody waits beside a free board."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from toolchain.rpc.registry import Offer, Registry

KEYS = st.sampled_from(["a", "b", "c@1", "c@2"])


class Rendezvous(RuleBasedStateMachine):
    """Nothing is given twice, nobody waits beside a free server, who has gone is nowhere."""

    peers = Bundle("peers")

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.given: list[Offer] = []
        self.gone: set[object] = set()
        self.made = 0

    @rule(target=peers)
    def connect(self) -> object:
        return object()

    @rule(peer=peers, key=KEYS)
    def offer(self, peer: object, key: str) -> None:
        self.made += 1
        self.registry.register(peer, key, "127.0.0.1", 9000)
        self.registry.offer(key, Offer(peer, "127.0.0.1", 9000, str(self.made)))

    @rule(peer=peers, key=KEYS, priority=st.integers(0, 3), alive=st.booleans())
    def request(self, peer: object, key: str, priority: int, alive: bool) -> None:
        def deliver(offer: Offer) -> bool:
            if alive:
                assert peer not in self.gone
                assert offer.board == key.partition("@")[2]
                self.given.append(offer)
            return alive

        self.registry.request(peer, key, priority, deliver, "somebody", 60.0)

    @invariant()
    def who_is_leased_offers_nothing(self) -> None:
        assert len(self.registry.leases()) <= len(self.given)

    @rule(peer=consumes(peers))
    def disconnect(self, peer: object) -> None:
        self.gone.add(peer)
        self.registry.forget(peer)
        assert self.registry.match_keys(peer) == []
        assert self.registry.waits(peer) == 0

    @invariant()
    def nothing_is_given_twice(self) -> None:
        keys = [offer.match_key for offer in self.given]
        assert len(keys) == len(set(keys))

    @invariant()
    def nobody_waits_beside_a_free_server(self) -> None:
        for key, queue in self.registry.summary()["queue_info"].items():
            assert key == "c" or not (queue["free"] and queue["pending"])


TestRendezvous = Rendezvous.TestCase
TestRendezvous.settings = settings(max_examples=25)


def test_a_request_for_a_board_gets_that_board_and_any_other_takes_what_is_free() -> None:
    registry = Registry()
    given: list[str] = []

    def ask(key: str) -> None:
        registry.request(object(), key, 1, lambda offer: given.append(offer.board) or True, "tune", 60)

    ask("c@2")
    for board in ("1", "2"):
        server = object()
        registry.register(server, f"c@{board}", "127.0.0.1", 9000)
        registry.offer(f"c@{board}", Offer(server, "127.0.0.1", 9000, board))
    assert given == ["2"]
    ask("c")
    assert given == ["2", "1"]
    assert registry.summary()["queue_info"] == {"c": {"free": 0, "pending": 0}}


def test_a_lease_ends_with_the_next_offer_or_its_time_or_its_server() -> None:
    now = 0.0
    registry = Registry(clock=lambda: now)
    servers = [object() for _ in range(3)]
    for board, server in enumerate(servers):
        registry.register(server, f"c@{board}", "127.0.0.1", 9000)
        registry.offer(f"c@{board}", Offer(server, "127.0.0.1", 9000, "x"))
        registry.request(object(), f"c@{board}", 1, lambda _: True, f"user {board}", 10 + board)
    assert [lease.user for lease in registry.leases()] == ["user 0", "user 1", "user 2"]
    registry.offer("c@0", Offer(servers[0], "127.0.0.1", 9000, "y"))
    registry.forget(servers[1])
    assert [lease.board for lease in registry.leases()] == ["2"]
    now = 11.9
    assert registry.overdue() == []
    now = 12.1
    assert [lease.board for lease in registry.overdue()] == ["2"]
    assert registry.leases() == []


def test_who_waits_is_listed_in_the_order_of_service_with_the_time() -> None:
    now = 0.0
    registry = Registry(clock=lambda: now)
    given: list[str] = []
    clients = {name: object() for name in ("late", "early", "urgent")}

    def ask(name: str, key: str, priority: int = 1) -> None:
        registry.request(clients[name], key, priority, lambda _: given.append(name) or True, name, 60)

    ask("early", "c")
    now = 2.0
    ask("late", "c@1")
    now = 3.0
    ask("urgent", "c", priority=2)
    assert [(each.user, each.key, each.board, each.since) for each in registry.waiting()] == [
        ("urgent", "c", "", 3.0),
        ("early", "c", "", 0.0),
        ("late", "c", "1", 2.0),
    ]
    server = object()
    registry.register(server, "c@1", "127.0.0.1", 9000)
    for key in ("a", "b"):  # the server offers itself again after each session
        registry.offer("c@1", Offer(server, "127.0.0.1", 9000, key))
    assert given == ["urgent", "early"] and [each.user for each in registry.waiting()] == ["late"]
    registry.forget(clients["late"])
    assert registry.waiting() == []
