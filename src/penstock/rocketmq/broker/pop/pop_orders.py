"""Open batches of groups that pop in order (RocketMQ spec 2.7); no input or output here.

Of each queue a group has one batch at a time. As long as a message of it is neither acknowledged
nor visible again, the queue is blocked for the group. All times are ms of the wall clock, since
the time of popping is what tells batches apart, in receipts as in the file.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.core.units import HOUR, MILLISECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.store.waiting_time import FUTURE_MS
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.pop_info import QueueCounts

FILE: Final = "consumerOrderInfo.json"
GROUPS_MAX: Final = 100_000
"""Groups and topics, each pair once."""
OPEN_MAX: Final = 100_000
"""Batches of all queues of all groups."""
BATCH_MAX: Final = 62
"""Messages of a batch; Java marks in the bits of a number which are acknowledged."""
KEPT_MS: Final = 24 * HOUR // MILLISECOND
"""A batch that nobody asks for is forgotten after this time."""
_AT: Final = "@"

Key: TypeAlias = tuple[str, str]
"""Topic and group."""


class Finished(NamedTuple):
    """The offset at which a group goes on after an acknowledgement, and those of no batch."""

    next_offset: int
    strangers: list[int]


class OpenBatch:
    """Messages of a queue that a group has, by their queue offsets, which ascend.

    ``counts`` says how often those were had before that were; ``visible`` when those come again
    for which another time was set.
    """

    __slots__ = ("attempt", "counts", "done", "invisible_ms", "offsets", "pop_ms", "visible")

    def __init__(
        self, offsets: Sequence[int], pop_ms: int, invisible_ms: int, attempt: str | None = None
    ) -> None:
        self.offsets = list(offsets)
        self.pop_ms = pop_ms
        self.invisible_ms = invisible_ms
        self.attempt = attempt
        self.done: set[int] = set()
        self.visible: dict[int, int] = {}
        self.counts: dict[int, int] = {}

    @property
    def next_offset(self) -> int:
        """The first that is not acknowledged, or the one behind all."""
        for offset in self.offsets:
            if offset not in self.done:
                return offset
        return self.offsets[-1] + 1

    @property
    def is_done(self) -> bool:
        return len(self.done) == len(self.offsets)

    @property
    def free_ms(self) -> int:
        """The time at which all that is not acknowledged is visible again."""
        usual = self.pop_ms + self.invisible_ms
        open_ = [offset for offset in self.offsets if offset not in self.done]
        return max([self.visible.get(offset, usual) for offset in open_], default=0)

    def is_free(self, now_ms: int) -> bool:
        """True if the messages may be popped again.

        This includes the case that the system's time was set back to before the last pop, as its
        age is then unknown.
        """
        return self.free_ms <= now_ms or self.pop_ms > now_ms + FUTURE_MS

    def follows(self, earlier: OpenBatch) -> None:
        """Update redelivery counts. A retry with the same attempt id is not a redelivery."""
        if earlier.attempt is not None and earlier.attempt == self.attempt:
            self.counts = dict(earlier.counts)
            return
        before = set(earlier.offsets)
        self.counts = {
            offset: earlier.counts.get(offset, 0) + 1 for offset in self.offsets if offset in before
        }

    def as_json(self) -> dict[str, Any]:
        """The batch as Java writes it: offsets from the first one on, those done as bits."""
        first = self.offsets[0]
        found = {
            # Names of Java's OrderInfo, so that its file can be read here and ours there.
            "a": self.attempt,
            "cm": sum(1 << n for n, offset in enumerate(self.offsets) if offset in self.done),
            "i": self.invisible_ms,
            "l": self.pop_ms,
            "o": [first, *(offset - first for offset in self.offsets[1:])],
            "oc": dict(self.counts),
            "ot": dict(self.visible),
            "popTime": self.pop_ms,
        }
        return {name: each for name, each in found.items() if each is not None}

    @classmethod
    def from_json(cls, value: Any) -> OpenBatch:
        """Parse the table's JSON. Raises BodyError."""
        if not isinstance(value, dict):
            raise BodyError("a batch popped in order that is not an object")
        listed, bits = value.get("o"), value.get("cm", 0)
        numbers = [value.get("popTime"), value.get("i"), bits, *(listed or (None,))]
        if not isinstance(listed, list) or any(type(number) is not int for number in numbers):
            raise BodyError("a batch popped in order without numbers in popTime, i, cm or o")
        if len(listed) > BATCH_MAX:
            raise BodyError(f"a batch popped in order of more than {BATCH_MAX} messages")
        attempt = value.get("a")
        offsets = [listed[0], *(listed[0] + distance for distance in listed[1:])]
        batch = cls(offsets, value["popTime"], value["i"], attempt if attempt else None)
        batch.done = {offset for n, offset in enumerate(offsets) if bits >> n & 1}
        batch.visible, batch.counts = _numbers(value.get("ot")), _numbers(value.get("oc"))
        return batch


def _numbers(value: Any) -> dict[int, int]:
    found = fastjson.int_keys(value or {})
    if any(type(number) is not int for number in found.values()):
        raise BodyError("a batch popped in order with a time or count that is not a number")
    return found


class OrderTable:
    """The open batches by topic and group, and queue. Groups in the table pop in order."""

    def __init__(self) -> None:
        self._table: dict[Key, dict[int, OpenBatch]] = {}
        self._count = 0

    def __contains__(self, key: Key) -> bool:
        """True if a group pops a topic in order."""
        return key in self._table

    def __len__(self) -> int:
        """Open batches."""
        return self._count

    def enter(self, key: Key) -> None:
        """A group pops a topic in order. Raises BodyError when there are too many such groups, or
        a name is too long to be one.
        """
        if key not in self._table:
            if len(self._table) >= GROUPS_MAX:
                raise BodyError(f"more than {GROUPS_MAX} groups pop in order")
            if len(key[0]) > names.INNER_TOPIC_LENGTH_MAX or len(key[1]) > names.GROUP_LENGTH_MAX:
                raise BodyError("the name of a topic or group is too long")
            self._table[key] = {}

    # --- batches -------------------------------------------------------------------------------

    def find(self, key: Key, queue: int) -> OpenBatch | None:
        return self._table.get(key, {}).get(queue)

    def queues(self, key: Key) -> list[int]:
        """The queues of which a batch is out."""
        return list(self._table.get(key, ()))

    def may_pop(self, key: Key, queue: int, now_ms: int, attempt: str | None = None) -> bool:
        """True if a group can have a batch of a queue now; a repeated attempt always can."""
        batch = self.find(key, queue)
        if batch is None:
            return self._count < OPEN_MAX
        return batch.is_free(now_ms) or (attempt is not None and batch.attempt == attempt)

    def free_ms(self, key: Key, now_ms: int) -> int | None:
        """The time at which the next blocked queue is free; None when none is blocked."""
        blocked = [each for each in self._table.get(key, {}).values() if not each.is_free(now_ms)]
        return min([batch.free_ms for batch in blocked], default=None)

    def put(self, key: Key, queue: int, batch: OpenBatch) -> QueueCounts:
        """A group has popped this; the answer is how often it had it before."""
        queues = self._table.setdefault(key, {})
        earlier = queues.get(queue)
        if earlier is None:
            self._count += 1
        else:
            batch.follows(earlier)
        queues[queue] = batch
        all_again = len(batch.counts) == len(batch.offsets)
        least = min(batch.counts.values()) if all_again else 0
        return QueueCounts(queue, least, batch.counts)

    def finish(
        self, key: Key, queue: int, offsets: Collection[int], pop_ms: int
    ) -> Finished | None:
        """Acknowledge messages. None when the batch is not out any more: it is done, or comes
        again.
        """
        batch = self.find(key, queue)
        # The time of popping is what a receipt knows a batch by: an old receipt ends nothing.
        if batch is None or batch.pop_ms != pop_ms:
            return None
        wanted = set(offsets)
        batch.done |= wanted.intersection(batch.offsets)
        if batch.is_done:
            self.clear(key, queue)
        return Finished(batch.next_offset, sorted(wanted.difference(batch.offsets)))

    def hide(self, key: Key, queue: int, offset: int, pop_ms: int, visible_ms: int) -> bool:
        """Let a message come again at another time; False when it is not in a batch of then."""
        batch = self.find(key, queue)
        if batch is None or batch.pop_ms != pop_ms or offset not in batch.offsets:
            return False
        batch.visible[offset] = visible_ms
        return True

    # --- forgetting ----------------------------------------------------------------------------

    def clear(self, key: Key, queue: int) -> bool:
        """Whatever is out of a queue is out no more; whether there was something."""
        found = self._table.get(key, {}).pop(queue, None)
        self._count -= found is not None
        return found is not None

    def leave(self, key: Key) -> bool:
        """A group pops a topic in order no more; whether it did."""
        found = self._table.pop(key, None)
        self._count -= len(found or ())
        return found is not None

    def forget_topic(self, topic: str) -> None:
        for key in [key for key in self._table if key[0] == topic]:
            self.leave(key)

    def forget_group(self, group: str) -> None:
        for key in [key for key in self._table if key[1] == group]:
            self.leave(key)

    def forget_old(self, now_ms: int) -> None:
        """Drop the batches that nobody has asked for since long."""
        for key, queues in self._table.items():
            for queue in [q for q, each in queues.items() if each.free_ms < now_ms - KEPT_MS]:
                self.clear(key, queue)

    # --- the file ------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """The table as the Java classes print it; also the content of the file."""
        return {
            "table": {
                f"{topic}{_AT}{group}": {queue: each.as_json() for queue, each in queues.items()}
                for (topic, group), queues in self._table.items()
            }
        }

    def load(self, value: Any) -> None:
        """Take over what was kept. Raises BodyError."""
        table = value.get("table") if isinstance(value, dict) else None
        if not isinstance(table, dict):
            raise BodyError("batches popped in order without table")
        found = OrderTable()
        for name, queues in table.items():
            topic, at, group = str(name).partition(_AT)
            if not at:
                raise BodyError(f"the key {name!r} of batches popped in order is not a topic@group")
            found.enter((topic, group))
            for queue, each in fastjson.int_keys(queues).items():
                if isinstance(each, dict) and each.get("o"):  # Java keeps those that are empty
                    found.put((topic, group), queue, OpenBatch.from_json(each))
        self._table, self._count = found._table, found._count
