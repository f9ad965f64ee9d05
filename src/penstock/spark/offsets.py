"""Positions in the log: a place is one queue of one topic on one node, an offset a number in it.

In a checkpoint and in the options ``startingOffsets`` and ``endingOffsets`` they are written as
``{"topic": {"node": {"queue": offset}}}``; in the options also without the node, as Kafka's users
know it, where just one node has the topic. A checkpoint also carries the id of the log that each
offset is of, with its epochs (``core.ids``), in the same form; the name of the group that holds
retention, so that a restarted query goes on with the same one; and the owner, by which nodes tell
this query from others with the same group. The end of a query's first batch carries where that
batch began, too, and that of a batch of an archive the messages of a split. Checkpoints of older
versions have neither ids nor an owner nor that, or ids without epochs.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from operator import index
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from penstock.core.ids import fork, is_another, log_of
from penstock.spark.errors import OptionError

PLAIN_MAX: Final = 100
"""The most places that a checkpoint has as people can read them; more are packed."""
_PACKED: Final = "packed"
LATEST = -1
EARLIEST = -2
GROUP: Final = "group"
"""In place of offsets: a stream begins where its group stands."""
_WORDS: Final = {
    "startingOffsets": ("earliest", "latest", GROUP),
    "endingOffsets": ("earliest", "latest"),
}
# A batch read that starts at the end, or ends at the start, has nothing to read.
_EMPTY: Final = {"startingOffsets": ("latest", LATEST), "endingOffsets": ("earliest", EARLIEST)}


class Place(NamedTuple):
    """One queue of one topic on one node; ``node`` is its ``broadcast:http_port`` name."""

    topic: str
    node: str
    queue: int


class Bounds(NamedTuple):
    """A queue as its node reports it now: offsets ``start`` to ``end`` (not included).

    ``log`` is the id of the queue's log, another one after the topic was deleted and made again,
    with an epoch more after it was restored; empty if the node tells none.
    """

    start: int
    end: int
    bytes: int
    address: str
    log: str = ""

    @property
    def record_bytes(self) -> float:
        """Mean bytes of a message in the log, framing included."""
        return self.bytes / max(1, self.end - self.start)


Offsets: TypeAlias = dict[Place, int]
Logs: TypeAlias = dict[Place, str]
_Value = TypeVar("_Value", int, str)
Nested: TypeAlias = dict[str, dict[str, dict[str, int]]]


class Position(NamedTuple):
    """The content of a checkpoint; ``logs`` leaves out what is not known.

    ``began`` is where a query begins, up to the end of its first batch with messages: Spark writes
    no start down. ``split_rows`` is the number of messages of a split in the batch that ends here,
    where it must stay the same when the batch is planned again; else 0.
    """

    offsets: Offsets
    group: str
    logs: Logs
    owner: str = ""
    began: Offsets | None = None
    split_rows: int = 0

    @property
    def is_beginning(self) -> bool:
        """True if nothing is before it."""
        return self.began == self.offsets


def nest(values: Mapping[Place, _Value]) -> dict[str, dict[str, dict[str, _Value]]]:
    """The JSON form; sorted, because Spark compares offsets as text."""
    nested: dict[str, dict[str, dict[str, _Value]]] = {}
    for place, value in sorted(values.items()):
        nested.setdefault(place.topic, {}).setdefault(place.node, {})[str(place.queue)] = value
    return nested


def flatten(nested: Mapping[str, Any]) -> Offsets:
    """The inverse of ``nest``. Raises ValueError, TypeError or AttributeError on another shape."""
    # `index`, not `int`: an offset of 1.5 is an error, not 1.
    return {place: index(offset) for place, offset in _places(nested)}


def _places(nested: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    for topic, nodes in nested.items():
        for node, queues in nodes.items():
            for queue, value in queues.items():
                yield Place(topic, node, int(queue)), value


def to_checkpoint(position: Position) -> dict[str, Any]:
    """The form of a position that Spark stores for this source in its offset log."""
    stored: dict[str, Any] = {"group": position.group, "offsets": nest(position.offsets)}
    if position.logs:
        stored["logs"] = nest(position.logs)
    if position.owner:
        stored["owner"] = position.owner
    if position.began is not None:
        stored["began"] = nest(position.began)
    if position.split_rows:
        stored["splitRows"] = position.split_rows
    return stored if len(position.offsets) <= PLAIN_MAX else _packed(stored)


def from_checkpoint(stored: Mapping[str, Any]) -> Position:
    """The position that ``to_checkpoint`` stored."""
    if _PACKED in stored:
        stored = json.loads(zlib.decompress(base64.b64decode(stored[_PACKED])))
    return Position(
        flatten(stored["offsets"]),
        str(stored["group"]),
        {place: str(log) for place, log in _places(stored.get("logs", {}))},
        str(stored.get("owner", "")),
        flatten(stored["began"]) if "began" in stored else None,
        index(stored.get("splitRows", 0)),
    )


def _packed(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A form of few bytes a place: Spark writes it at each batch and shows it three times in each
    report.
    """
    data = zlib.compress(json.dumps(stored, separators=(",", ":")).encode(), 1)
    return {"group": stored["group"], _PACKED: base64.b64encode(data).decode()}


def logs_of(bounds: Mapping[Place, Bounds], known: Mapping[Place, str] | None = None) -> Logs:
    """The ids of the logs, where nodes tell them; as ``known`` where they say the same."""
    found = known or {}
    return {
        place: found[place] if goes_on(found.get(place, ""), bound.log) else bound.log
        for place, bound in bounds.items()
        if bound.log
    }


def goes_on(log: str, other: str) -> bool:
    """True if these are ids of one log in the same epoch."""
    return bool(log and other) and not is_another(log, other) and fork(log, other) is None


def renames(
    reached: Mapping[Place, int], logs: Mapping[Place, str], bounds: Mapping[Place, Bounds]
) -> dict[Place, Place]:
    """The places under other names now: their logs are on nodes that call themselves otherwise."""
    now = {
        (place.topic, place.queue, log_of(bound.log)): place
        for place, bound in bounds.items()
        if bound.log
    }
    found = {}
    for place in reached:
        log = logs.get(place, "")
        there = now.get((place.topic, place.queue, log_of(log))) if log else None
        if there is not None and there != place and there not in reached:
            found[place] = there
    return found


def renamed(position: Position, bounds: Mapping[Place, Bounds]) -> Position:
    """The position with the names that nodes have now."""
    names = renames(position.offsets, position.logs, bounds)
    if not names:
        return position
    return position._replace(
        offsets=_keyed(position.offsets, names),
        logs=_keyed(position.logs, names),
        began=None if position.began is None else _keyed(position.began, names),
    )


def _keyed(values: Mapping[Place, _Value], names: Mapping[Place, Place]) -> dict[Place, _Value]:
    return {names.get(place, place): value for place, value in values.items()}


def offsets(name: str, given: str) -> str:
    """The text of an option that ``resolve`` takes, or ``group``, checked without asking the nodes.

    Raises OptionError.
    """
    word = given.strip().lower()
    if word in _WORDS[name]:
        return word
    _given(given, name)
    return given


def require_some(name: str, given: str) -> None:
    """Raise OptionError for a start or an end that leaves a batch read no message."""
    word, number = _EMPTY[name]
    if given.strip().lower() == word:
        raise OptionError(f"{name}={word} leaves nothing to read in a batch read")
    if _is_json(given) and (places := [p for p, at in _given(given, name).items() if at == number]):
        raise OptionError(
            f"{name} gives {number} ({word}) for topic {places[0].topic} (queue "
            f"{places[0].queue}), which leaves nothing to read there in a batch read"
        )


def resolve(option: str, name: str, bounds: Mapping[Place, Bounds]) -> Offsets:
    """Offsets for ``earliest``, ``latest`` or a JSON text; places it leaves out are earliest
    for ``startingOffsets`` and latest for ``endingOffsets``.

    Raises OptionError when the text is neither or names a place that is not there.
    """
    word = option.strip().lower()
    if word == "earliest":
        return {place: bound.start for place, bound in bounds.items()}
    if word == "latest":
        return {place: bound.end for place, bound in bounds.items()}
    given = _with_nodes(_given(option, name), name, bounds)
    for place in given:
        if place not in bounds:
            raise OptionError(f"{name} names {_absent(place, bounds)}")
    default = EARLIEST if name == "startingOffsets" else LATEST
    return {place: _special(given.get(place, default), bound) for place, bound in bounds.items()}


def _absent(place: Place, bounds: Mapping[Place, Bounds]) -> str:
    """The part of a place that is not there, and what is there instead."""
    nodes = sorted({other.node for other in bounds if other.topic == place.topic})
    if not nodes:
        topics = ", ".join(sorted({other.topic for other in bounds}))
        return f"topic {place.topic}, which is not among the topics that are read: {topics}"
    if place.node not in nodes:
        return f"node {place.node} for topic {place.topic}, which is held by {', '.join(nodes)}"
    queues = sorted(other.queue for other in bounds if other[:2] == place[:2])
    return (
        f"queue {place.queue} of topic {place.topic} on node {place.node}, "
        f"which has queue {', '.join(map(str, queues))}"
    )


def _is_json(given: str) -> bool:
    return given.lstrip().startswith("{")


def _given(option: str, name: str) -> Offsets:
    """The offsets of a JSON text; a place that is given by queue alone, as Kafka's users write it,
    has an empty node. Raises OptionError.
    """
    try:
        nested = json.loads(option)
        given = flatten(
            {
                topic: {"": each} if all(isinstance(at, int) for at in each.values()) else each
                for topic, each in nested.items()
            }
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise OptionError(
            f"{name} must be earliest, latest or JSON such as "
            f'{{"topic": {{"host:4151": {{"0": 42}}}}}}, not {option[:300]!r}'
        ) from None
    for offset in given.values():
        if offset < EARLIEST:
            raise OptionError(f"{name} gives offset {offset}; below 0, -1 is latest, -2 earliest")
    return given


def _with_nodes(given: Offsets, name: str, bounds: Mapping[Place, Bounds]) -> Offsets:
    """The offsets with the one node that has the topic where they name none."""
    found: Offsets = {}
    for place, offset in given.items():
        nodes = sorted({other.node for other in bounds if other.topic == place.topic})
        if not place.node and len(nodes) > 1:
            queues = {
                str(each.queue): at for each, at in given.items() if each.topic == place.topic
            }
            raise OptionError(
                f"{name} names no node for topic {place.topic}, which is held by "
                f'{", ".join(nodes)}: write {{"{place.topic}": {{"{nodes[0]}": '
                f"{json.dumps(queues)}}}}}"
            )
        found[place if place.node or not nodes else place._replace(node=nodes[0])] = offset
    return found


def _special(offset: int, bound: Bounds) -> int:
    return {LATEST: bound.end, EARLIEST: bound.start}.get(offset, offset)
