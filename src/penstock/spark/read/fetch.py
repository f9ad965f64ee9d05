"""Fetches of stored batches, each checked to be of the log that was planned; offsets by time."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.ids import is_another
from penstock.log_api.errors import LogError, NodeError, OffsetOutOfRange, TopicNotFound
from penstock.log_api.log_client import Fetched
from penstock.spark import planning
from penstock.spark.access import client, persist, why
from penstock.spark.errors import LostError, SourceError
from penstock.spark.offsets import Place
from penstock.spark.planning import Split
from penstock.spark.source_settings import SourceSettings


def fetch(split: Split, offset: int, max_bytes: int, settings: SourceSettings) -> bytes:
    """Whole batches of the split's place, the first of which contains ``offset``.

    Raises SourceError that names topic, node and offset: a LostError if what was planned is there
    no more.
    """
    place = split.place
    what = f"topic {place.topic} (queue {place.queue}) on node {place.node}"
    try:
        found = persist(
            lambda: _ask(split, offset, max_bytes, settings),
            f"{what} cannot be read from offset {offset}",
            settings.timeout_s,
        )
    except TopicNotFound:
        raise LostError(f"{what} has vanished; offset {offset} was to be read") from None
    except LogError as error:
        raise SourceError(f"{what}, offset {offset}: {error}") from error
    except OffsetOutOfRange as error:
        _require_log(split, offset, error.log)
        if offset < error.start:
            raise LostError(planning.gone(place, offset, error.start), error.start) from None
        raise LostError(planning.beyond(place, offset, error.end)) from None
    _require_log(split, offset, found.log)
    return found.data


def offset_at(place: Place, address: str, timestamp_ns: int, settings: SourceSettings) -> int:
    """The offset of the first message of a place published at this time or later.

    Raises SourceError that names topic and node.
    """
    what = f"topic {place.topic} (queue {place.queue}) on node {place.node}"
    try:
        return persist(
            lambda: client(address, settings.access).offset_at(
                place.topic, timestamp_ns, queue=place.queue
            ),
            f"{what} cannot be asked for an offset by time",
            settings.timeout_s,
        )
    except NodeError as error:
        raise SourceError(f"{what}: {why(error)}") from error


def group_offsets(
    address: str, group: str, topics: Sequence[str], settings: SourceSettings
) -> dict[str, dict[int, int]]:
    """The offsets of a group in these topics, by queue, where a node has it.

    Raises SourceError that names the node.
    """
    what = f"node {address} cannot be asked where group {group} stands"
    try:
        return persist(
            lambda: client(address, settings.access).group_offsets(group, topics),
            what,
            settings.timeout_s,
        )
    except NodeError as error:
        raise SourceError(f"{what}: {why(error)}") from error


def _ask(split: Split, offset: int, max_bytes: int, settings: SourceSettings) -> Fetched:
    place = split.place
    return client(split.address, settings.access).fetch(
        place.topic, offset, queue=place.queue, max_bytes=max_bytes
    )


def _require_log(split: Split, offset: int, log: str) -> None:
    """Raise LostError when the topic was made again since the split was planned, SourceError when
    the node went back to what it was before: the batch is to be planned again.
    """
    if is_another(split.log, log):
        raise LostError(planning.replaced(split.place, offset, split.log, log))
    parted = planning.parted(split.log, log, split.end)
    if parted is not None and split.end > parted.first:
        said = planning.went_back(split.place, offset, parted).partition(". Set ")[0]
        raise SourceError(f"{said}. That was while a batch was read: start the query again")
