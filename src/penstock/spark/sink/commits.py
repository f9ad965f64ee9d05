"""Exactly once, beside the driver: commit what the winning attempts have staged, or drop it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

from penstock.nsq.client.errors import ClientError
from penstock.nsq.client.log import TOPICS_MAX, LogError
from penstock.nsq.client.writes import Committed, Part, WriteClient
from penstock.spark.errors import SinkError, SourceError
from penstock.spark.nodes.access import Access, persist, why
from penstock.spark.nodes.at_once import at_once
from penstock.spark.sink.nodes import Connections
from penstock.spark.sink.staging import Batch, Place, StagedRows

_ABORT_S: Final = 2.0
# A node that works on a commit is silent: it writes as much as may be staged, and syncs it.
_COMMIT_S: Final = 120.0
# A part is 60 bytes of a request, of which nodes take 4 MiB.
_PARTS_MAX: Final = 20_000
logger = logging.getLogger("penstock.spark")
_Answer = TypeVar("_Answer")
_Parts: TypeAlias = Mapping[str, list[Part]]


def commit(staged: Iterable[StagedRows], access: Access) -> None:
    """Make a batch's messages visible, on all nodes at once, in one write a topic.

    What a node committed before is left as it is and logged. Raises SinkError or SourceError; the
    same commit again completes what was left out.
    """
    all_staged = list(staged)
    if not all_staged:
        return
    (batch,) = {each.batch for each in all_staged}
    done = {place for each in all_staged for place in each.done}
    parts = _by_address(all_staged)
    _require_distinct(batch, parts, access)
    answers = at_once(partial(_commit_at, batch=batch, parts=parts, access=access), parts)
    for address, topics in answers.items():
        for topic, answer in topics.items():
            if not isinstance(answer, Committed):
                raise SinkError(_not_committed(batch, Place(address, topic), answer))
            if answer.again:
                done.add(Place(address, topic))
    for place in sorted(done):
        logger.warning(
            f"batch {batch.number} of writer {batch.writer} is in topic {place.topic} on node "
            f"{place.address} already, and was not written again"
        )


def abort(batch: Batch, addresses: Iterable[str], access: Access) -> None:
    """Drop what is staged for a batch; a node that does not answer does so when it expires."""
    hurried = access.hurried(_ABORT_S)

    def ask(address: str) -> None:
        try:
            _at(address, hurried, lambda client: client.abort_staged(*batch))
        except (ClientError, SourceError) as error:
            logger.info(f"staged messages are left to expire on node {address}: {why(error)}")

    at_once(ask, addresses)


def _by_address(staged: Iterable[StagedRows]) -> dict[str, dict[str, list[Part]]]:
    found: dict[str, dict[str, list[Part]]] = {}
    for each in staged:
        for place, part in each.parts.items():
            found.setdefault(place.address, {}).setdefault(place.topic, []).append(part)
    return found


def _require_distinct(batch: Batch, addresses: Iterable[str], access: Access) -> None:
    """Raise SinkError if two addresses lead to one node, which takes a batch once only."""
    ask = partial(_ask, batch, access, lambda client: client.identity())
    names: dict[tuple[object, ...], str] = {}
    several = list(addresses)
    for address, identity in (at_once(ask, several) if len(several) > 1 else {}).items():
        other = names.setdefault(identity, address)
        if other != address:
            raise SinkError(f"{other} and {address} are one node: name it once for exactlyOnce")


def _commit_at(
    address: str, batch: Batch, parts: Mapping[str, _Parts], access: Access
) -> dict[str, Committed | ClientError]:
    found: dict[str, Committed | ClientError] = {}
    for some in _requests(parts[address]):
        found |= _ask(batch, access, partial(_commit_some, batch, some), address, _COMMIT_S)
    return found


def _commit_some(
    batch: Batch, some: _Parts, client: WriteClient
) -> dict[str, Committed | ClientError]:
    return client.commit_staged(*batch, some)


def _ask(
    batch: Batch,
    access: Access,
    ask: Callable[[WriteClient], _Answer],
    address: str,
    silence_s: float = 0.0,
) -> _Answer:
    """An answer that a commit needs, as persistently as the options say; the node may be silent for
    ``silence_s`` before it.
    """
    failure = f"batch {batch.number} of writer {batch.writer} cannot be committed at node {address}"
    patient = replace(access, timeout_s=max(access.timeout_s, silence_s))
    try:
        return persist(lambda: _at(address, patient, ask), failure, access.timeout_s)
    except LogError as error:
        raise SinkError(f"{failure}: {why(error)}") from None


def _requests(parts: _Parts) -> Iterator[_Parts]:
    """The topics in pieces that one request takes."""
    some: dict[str, list[Part]] = {}
    count = 0
    for topic, of_topic in parts.items():
        if some and (count + len(of_topic) > _PARTS_MAX or len(some) == TOPICS_MAX):
            yield some
            some, count = {}, 0
        some[topic] = of_topic
        count += len(of_topic)
    if some:
        yield some


def _at(address: str, access: Access, ask: Callable[[WriteClient], _Answer]) -> _Answer:
    with Connections(access) as connections, connections.to(address) as client:
        return ask(client)


def _not_committed(batch: Batch, place: Place, error: ClientError) -> str:
    return (
        f"batch {batch.number} of writer {batch.writer} is not in topic {place.topic} on node "
        f"{place.address}: {why(error)}. Staged messages expire (--staged-retention); run it again"
    )
