"""The work of ``penstock lease`` beside a node: renew its lease, or take it and promote the node.

Two rules make it safe. A lease ends for its holder before it ends for anybody else: the holder
counts from the moment before it asked, others from the moment at which they saw the last renewal,
each by its own clock. And a copy is listed in the lease only while the primary acknowledges nothing
that the copy has not, so whoever is listed loses nothing when it takes the lease:

    the primary waits for a copy  ->  then it is listed
    a copy is listed no more      ->  then the primary waits for it no more
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol

import msgspec

from penstock.cli.lease.record import LeaseError, Record, Store, Version
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.units import SECOND

LOOKS: Final = 12
"""The looks in the time of a lease."""
RENEWALS: Final = 4
"""The renewals in the time of a lease, at least."""
MARGIN: Final = 0.1
"""The part of a lease that its holder does not use, as clocks run at different paces."""
SILENT_S: Final = 3.0
"""A copy that has not asked for longer does not follow."""
NEAR_BYTES: Final = 4 << 20
"""A copy that lacks less is waited for, to be listed."""


Submit = Callable[..., Future[Any]]
"""A way to call a function with arguments and to have its result later."""


class Node(Protocol):
    """The node beside."""

    def status(self, address: str = "") -> dict[str, Any] | None:
        """The /replication of it, or of another node; None without an answer."""
        ...

    @property
    def is_gone(self) -> bool:
        """True if its port was closed when it was asked last."""
        ...

    def post(self, path: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and content of its answer. Raises LeaseError."""
        ...


class Tender:
    """One that looks after the lease of a node at ``address``."""

    def __init__(
        self,
        store: Store,
        node: Node,
        address: str,
        seconds: float = 15.0,
        clock: Clock = SYSTEM_CLOCK,
        submit: Submit | None = None,
    ) -> None:
        """``submit`` begins what takes long, in another thread unless it says otherwise."""
        self._submit = submit or ThreadPoolExecutor(1).submit
        self._promotion: Future[tuple[int, dict[str, Any]]] | None = None
        self._store = store
        self._node = node
        self._address = address
        self._seconds = seconds
        self._clock = clock
        self._seen = Version(None)
        self._seen_ns: int | None = None
        self._renewed_ns: int | None = None
        self._until_ns = 0
        self._gone_ns: int | None = None

    @property
    def pause_s(self) -> float:
        """The time between two looks."""
        return self._seconds / LOOKS

    def look(self) -> str:
        """Look once; what there is to tell people. Raises LeaseError."""
        asked_ns = self._clock.monotonic_ns()
        version = self._store.read()
        self._note(version)
        if self._promotion is not None:
            return self._while_promoted(version, self._promotion, asked_ns)
        status = self._node.status()
        if status is None:
            return self._without_node(version)
        self._gone_ns = None
        if status.get("role") == "primary":
            return self._as_primary(version, status, asked_ns)
        if self._holds(version.record):
            self._release(version)
            return "this node is not primary: it lets go of its lease"
        if status.get("role") == "follower":
            return self._as_follower(version, status)
        return ""

    def _note(self, version: Version) -> None:
        """Remember when this version was there first."""
        if self._seen_ns is None or version.mark != self._seen.mark:
            self._seen, self._seen_ns = version, self._clock.monotonic_ns()

    def _holds(self, record: Record | None) -> bool:
        return record is not None and record.holder == self._address and not record.is_released

    def _is_over(self, record: Record) -> bool:
        """True if the lease is over for whoever holds it."""
        return record.is_released or self._age_ns > record.seconds * SECOND

    @property
    def _age_ns(self) -> int:
        """The time since which the lease is as it is."""
        assert self._seen_ns is not None
        return self._clock.monotonic_ns() - self._seen_ns

    # --- its node is gone ----------------------------------------------------------------------

    def _without_node(self, version: Version) -> str:
        """Let go of the lease of a node that has ended and does not come back at once."""
        now = self._clock.monotonic_ns()
        if not (self._node.is_gone and self._holds(version.record)):
            self._gone_ns = None
            return "this node does not answer"
        if self._gone_ns is None:
            self._gone_ns = now
        if now - self._gone_ns < self._seconds * SECOND / RENEWALS:
            return "this node has ended"
        self._release(version)
        return "this node has ended: it lets go of its lease"

    def _release(self, version: Version) -> None:
        assert version.record is not None
        self._store.write(version, msgspec.structs.replace(version.record, is_released=True))

    # --- its node is primary -------------------------------------------------------------------

    def _as_primary(self, version: Version, status: dict[str, Any], asked_ns: int) -> str:
        record, epoch = version.record, int(status.get("epoch") or 0)
        if not epoch:  # never copied: a node by itself begins its first epoch with a lease
            epoch = 1
        if record is not None and record.history not in ("", status.get("history", "")):
            return f"the lease {self._store.name} is of other nodes: give each pair its own"
        if record is not None and record.holder != self._address:
            if record.served > epoch:
                return self._fence(record, status)
            if record.epoch > epoch and not record.is_released:
                return f"{record.holder} has taken the lease for epoch {record.epoch}"
            if not self._is_over(record):
                return f"{record.holder} holds the lease: this node takes no publishes"
        lease = status.get("lease")
        if lease is None:
            remedy = "start it with --needs-lease, mqbroker with needsLease=true"
            return f"the node is not told to need a lease: {remedy}"
        # By its own clock, and read before the renewal: how long that takes does not matter.
        node_ns = int(lease["clock_ns"])
        listed, members = self._members(status)
        is_changed = record is None or not self._holds(record) or record.in_sync != listed
        if is_changed or self._is_due(asked_ns):
            renewed = Record(
                holder=self._address,
                # Not back, should another one have taken it in vain.
                epoch=max(epoch, record.epoch if record is not None else 0),
                served=epoch,
                history=str(status.get("history", "")),
                seconds=self._seconds,
                renewals=(record.renewals if record is not None else 0) + 1,
                in_sync=listed,
                nodes=[str(each["address"]) for each in status.get("followers", ())],
            )
            if not self._store.write(version, renewed):
                return "others change the lease"
            self._renewed_ns = asked_ns
            self._until_ns = node_ns + int(self._seconds * (1 - MARGIN) * SECOND)
        grant = {"epoch": epoch, "until_ns": self._until_ns, "members": members}
        code, answer = self._node.post("/replication/lease", grant)
        return "" if code == 200 else f"the node refuses its lease: {answer.get('message', code)}"

    def _members(self, status: dict[str, Any]) -> tuple[list[str] | None, list[str]]:
        """The copies to be listed, and those that the primary is to wait for."""
        if not status.get("replicas_acked"):
            return None, []
        waited = set(status.get("lease", {}).get("members", ()))
        present = [
            each
            for each in status.get("followers", ())
            if float(each.get("asked_seconds_ago", SILENT_S)) < SILENT_S
        ]
        listed = sorted(
            each["address"] for each in present if each["address"] in waited and each.get("has_all")
        )
        near = {each["address"] for each in present if each.get("lag_bytes", 0) < NEAR_BYTES}
        return listed, sorted(near | set(listed))

    def _fence(self, record: Record, status: dict[str, Any]) -> str:
        fence = {
            "history": status.get("history", ""),
            "epoch": record.served,
            "address": record.holder,
        }
        self._node.post("/replication/fence", fence)
        return f"{record.holder} holds the lease for epoch {record.epoch}: this node steps back"

    # --- its node is a copy --------------------------------------------------------------------

    def _as_follower(self, version: Version, status: dict[str, Any]) -> str:
        record = version.record
        if record is None or not record.epoch or not self._is_over(record):
            return ""
        if record.history not in ("", status.get("history", "")):
            return f"the lease {self._store.name} is of other nodes: give each pair its own"
        is_listed = record.in_sync is not None and self._address in record.in_sync
        if not is_listed:
            reason = self._reason_against(record, status)
            if reason:
                return f"the lease of {record.holder} is over, but this copy {reason}"
        if not is_listed and (ahead := self._further(record, status)):
            return f"the lease of {record.holder} is over, and {ahead} has more than this copy"
        epoch = max(record.epoch, int(status.get("epoch") or 0)) + 1
        # Listed are the same copies still: nothing was acknowledged since.
        taken = msgspec.structs.replace(
            record,
            holder=self._address,
            epoch=epoch,
            seconds=self._seconds,
            renewals=record.renewals + 1,
            is_released=False,
        )
        if not self._store.write(version, taken):
            return "another one takes the lease"
        self._renewed_ns = self._clock.monotonic_ns()
        query = f"epoch={epoch}" + "&in_sync=true" * is_listed
        self._promotion = self._submit(self._node.post, f"/replication/promote?{query}", {})
        return f"the lease of {record.holder} is over: this node is promoted, in epoch {epoch}"

    def _while_promoted(
        self, version: Version, promotion: Future[tuple[int, dict[str, Any]]], asked_ns: int
    ) -> str:
        """Keep the lease while the node is promoted, as a big data path takes long to open."""
        if not promotion.done():
            if self._holds(version.record) and self._is_due(asked_ns):
                assert version.record is not None
                renewals = version.record.renewals + 1
                renewed = msgspec.structs.replace(version.record, renewals=renewals)
                if self._store.write(version, renewed):
                    self._renewed_ns = asked_ns
            return ""
        self._promotion, self._renewed_ns = None, None
        code, answer = promotion.result()
        if code == 200:
            return "this node is primary"
        if self._holds(version.record):
            self._release(version)
        return f"the node refuses to become primary: {answer.get('why') or answer.get('message')}"

    def _is_due(self, asked_ns: int) -> bool:
        """True if it is time to renew the lease."""
        least_ns = self._seconds * SECOND / RENEWALS
        return self._renewed_ns is None or asked_ns - self._renewed_ns >= least_ns

    def _reason_against(self, record: Record, status: dict[str, Any]) -> str:
        if record.in_sync is not None:
            others = f", which {', '.join(record.in_sync)} has" if record.in_sync else ""
            return (
                f"may lack what {record.holder} acknowledged{others}: start that node, or lose it "
                "with penstock promote --force"
            )
        needs_force = str(status.get("needs_force") or "")
        return f"needs --force: {needs_force}" if needs_force else ""

    def _further(self, record: Record, status: dict[str, Any]) -> str:
        """Another copy that has more than this one, or as much and comes first by its address."""
        own = int(status.get("messages") or 0)
        if self._age_ns > 2 * record.seconds * SECOND:
            return ""  # that one had its time
        for address in record.nodes:
            if address == self._address:
                continue
            other = self._node.status(address)
            if other is None or other.get("role") != "follower":
                continue
            if (int(other.get("messages") or 0), address) > (own, self._address):
                return address
        return ""


def tend(tender: Tender, sleep: Callable[[float], object], say: Callable[[str], object]) -> None:
    """Look again and again, and say what is new."""
    said = ""
    while True:
        try:
            line = tender.look()
        except LeaseError as error:
            line = str(error)
        if line and line != said:
            say(line)
        said = line
        sleep(tender.pause_s)
