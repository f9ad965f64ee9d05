"""Exactly once, beside the driver: commit what the winning attempts have staged, or drop it.

A batch for several nodes, or several topics, is a commit in two phases. Its nodes are the
coordinator's log: Spark tells a sink neither where its checkpoint is nor how to reach it.

1. **Stage.** Each attempt of a task stages its rows at the nodes, durably, under a number that
   no other attempt has (``staging``). Nobody sees them.
2. **Decide.** When all tasks are done, the driver has every node write down the decision: the
   winning attempts, the nodes, and how many chunks are at each. A node that does not hold its
   chunks refuses. From then on it stages nothing more of the batch, drops the attempts that have
   not won, and lets what was decided expire no more.
3. **Commit.** When all nodes hold the decision, each appends its share: in one write a topic, which
   also names writer and batch, so that it is not appended twice.

No node commits before all hold the decision. So a driver that comes after one that died asks the
nodes of its list first. If one of them holds a decision of the batch, that is finished as it
stands: the rest of the nodes are made to hold it, and all commit. What the new driver's tasks have
computed is left out, as it need not be the same rows. Nodes in another order are the same nodes;
with others the batch is refused. If none holds one, nothing is committed, and this run decides on
the batch. A decision whose chunks are lost before anything of it is committed is revoked.

A decision stays until the writer's next one, as a batch comes again when the driver dies before its
checkpoint is written. Attempts without a decision are dropped by ``abort``, or expire at the node.

Nodes of earlier versions keep no decisions. Where one is in the list, parts are committed without,
which holds only if a batch that comes again has the same rows, and the list the same order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias, TypeVar
from urllib.parse import urlencode

from penstock.log_api.errors import BatchCommitted, BatchDecided, LogError, NodeError, NoLog
from penstock.log_api.log_client import TOPICS_MAX
from penstock.log_api.write_client import Committed, Decision, Part, WriteClient
from penstock.spark.access import Access, persist, why
from penstock.spark.errors import SinkError, SourceError
from penstock.spark.nodes.at_once import at_once
from penstock.spark.sink.node_rotation import Connections
from penstock.spark.sink.staging import Batch, Place, StagedRows

# Spark waits for an abort, and what a silent node has staged expires there anyway.
_ABORT_S: Final = 2.0
# A node that works on a commit is silent: it writes as much as may be staged, and syncs it.
_COMMIT_S: Final = 120.0
# A part is 60 bytes of a request, of which nodes take 4 MiB.
_PARTS_MAX: Final = 20_000
logger = logging.getLogger("penstock.spark")
_Answer = TypeVar("_Answer")
_Parts: TypeAlias = Mapping[str, list[Part]]


def commit(
    staged: Iterable[StagedRows], nodes: Sequence[str], access: Access, batch: Batch | None = None
) -> None:
    """Make a batch's messages visible, on all nodes, in one write a topic.

    Without ``batch`` it is that of what is staged. What an earlier run has decided is finished in
    its place. Raises SinkError or SourceError; the same commit again completes what was left out.
    """
    all_staged = list(staged)
    named = {each.batch for each in all_staged} | ({batch} if batch is not None else set())
    if not named:
        return
    # Fails for more than one: all tasks of a commit have the same batch.
    (batch,) = named
    known = _known(batch, sorted(set(nodes)), access)
    if known is None:
        # One such node is enough: a later driver could not ask it what was decided.
        _commit_undecided(batch, all_staged, access)
        return
    held = {
        address: each
        for address, each in known.items()
        # Decisions of earlier batches are finished, as their writer has gone on.
        if each is not None and each.batch >= batch.number
    }
    decision = _held(batch, held, nodes) if held else _own(batch, nodes, all_staged)
    if decision is None:
        logger.warning(f"{_the(batch)} is on its nodes already, and was not written again")
    elif held or any(chunks for _, chunks in decision.nodes):
        _decide(batch, decision, held, access)
        _finish(batch, decision, access)
    if not held:
        _tell_done({place for each in all_staged for place in each.done}, batch)


def abort(batch: Batch, addresses: Iterable[str], access: Access) -> None:
    """Drop what is staged for a batch, unless it may be decided: that is finished by a later run.

    A node that does not answer drops it when it expires.
    """
    hurried = access.hurried(_ABORT_S)
    nodes = sorted(set(addresses))

    def is_open(address: str) -> bool:
        try:
            last = _at(address, hurried, lambda client: _decision_of(client, batch))
        except NoLog:
            return True
        # Silence counts as a decision: to drop a share that is decided would lose rows.
        except (NodeError, SourceError):
            return False
        return last is None or last.batch < batch.number

    def ask(address: str) -> None:
        try:
            _at(address, hurried, lambda client: client.abort_staged(*batch))
        except (NodeError, SourceError) as error:
            logger.info(f"staged messages are left to expire on node {address}: {why(error)}")

    # Of a decided batch no share may go, at no node: a later run finishes it as it stands.
    if all(at_once(is_open, nodes).values()):
        at_once(ask, nodes)
    else:
        logger.info(f"{_the(batch)} may be decided: what is staged of it is left for its next run")


# --- deciding ------------------------------------------------------------------------------------


def _known(batch: Batch, nodes: Sequence[str], access: Access) -> dict[str, Decision | None] | None:
    """The writer's last decision at each node; None if one of the nodes keeps none.

    Raises SinkError if two addresses lead to one node, which would count chunks of both as one's.
    """

    def ask(address: str) -> tuple[tuple[object, ...], Decision | None, bool]:
        identity = _ask(batch, access, lambda client: client.identity(), address)
        try:
            return identity, _ask(batch, access, partial(_decision_of, batch=batch), address), True
        except _OlderError:
            return identity, None, False

    answers = at_once(ask, nodes)
    names: dict[tuple[object, ...], str] = {}
    for address, (identity, _, _) in answers.items():
        other = names.setdefault(identity, address)
        if other != address:
            raise SinkError(f"{other} and {address} are one node: name it once for exactlyOnce")
    older = [address for address, (_, _, decides) in answers.items() if not decides]
    if older:
        logger.warning(
            f"node {', '.join(older)} is of an earlier version, which keeps no decisions: a batch "
            "that is cut short is completed rightly only if it comes again with the same rows and "
            "the same list of nodes. Upgrade it"
        )
        return None
    return {address: last for address, (_, last, _) in answers.items()}


class _OlderError(SinkError):
    """A node that keeps no decisions."""


def _decision_of(client: WriteClient, batch: Batch) -> Decision | None:
    return client.decision(batch.writer, batch.scope)


def _held(batch: Batch, held: Mapping[str, Decision], nodes: Sequence[str]) -> Decision | None:
    """The decision of an earlier run that is to be finished; None if all of it is committed.

    Raises SinkError if it is for other nodes than these.
    """
    # The writer is further: a batch that comes late was committed by the run that decided on it.
    if any(each.batch > batch.number for each in held.values()):
        return None
    for address, each in held.items():
        theirs = [name for name, _ in each.nodes]
        # A node that is missing may hold rows of the batch, and a new one knows nothing of it.
        if set(theirs) != set(nodes):
            raise SinkError(
                f"{_the(batch)} was begun at {', '.join(theirs)} (node {address} has that written "
                f"down), and nsqd_http_address is {', '.join(nodes)} now: give the nodes of before "
                "until the query has ended after a batch, then change the list"
            )
    # A node that holds no decision may have missed it: then the batch is finished there, too.
    if len(held) == len(set(nodes)) and all(each.done for each in held.values()):
        return None
    open_ = [each for each in held.values() if not each.done]
    decision = (open_ or list(held.values()))[0]
    if any((each.nodes, each.attempts) != (decision.nodes, decision.attempts) for each in open_):
        raise SinkError(
            f"nodes {', '.join(held)} have decided on different attempts at {_the(batch)}. "
            + _anew(batch)
        )
    logger.warning(
        f"{_the(batch)} was decided by an earlier run: what that staged is committed, and what was "
        "computed again is left out"
    )
    return decision


def _own(batch: Batch, nodes: Sequence[str], staged: Sequence[StagedRows]) -> Decision:
    """The decision that what these attempts have staged is committed."""
    # Nodes without chunks hold the decision too: the next driver asks each. Sorted, so that all
    # drivers ask the same one first.
    chunks = dict.fromkeys(sorted(nodes), 0)
    attempts = set()
    for place, part in (each for some in staged for each in some.parts.items()):
        chunks[place.address] += part.chunks
        attempts.add((part.part, part.attempt))
    return Decision(batch.number, tuple(chunks.items()), tuple(sorted(attempts)))


def _decide(batch: Batch, decision: Decision, held: Mapping[str, Decision], access: Access) -> None:
    """Have all nodes hold the decision: the first alone, so that of two drivers one comes first.

    Raises SinkError, after which nothing is committed; SourceError for a silent node.
    """
    chunks = dict(decision.nodes)

    def ask(address: str) -> None:
        decide = partial(_decide_at, batch, decision, chunks[address])
        if not (address in held and held[address].done):
            _ask(batch, access, decide, address)

    first, *others = chunks
    try:
        ask(first)
        at_once(ask, others)
    except _ChunksLostError as error:
        # What is appended cannot be taken back, so a decision that is begun is not revoked.
        begun = [address for address, each in held.items() if each.begun]
        if begun:
            raise SinkError(
                f"{error}, and node {begun[0]} has committed its share. " + _anew(batch)
            ) from None
        at_once(partial(_revoke, batch, access), chunks)
        raise SinkError(f"{error}. Nothing of it was committed: run it again") from None


class _ChunksLostError(SinkError):
    """A node does not hold what is to be decided on."""


def _decide_at(batch: Batch, decision: Decision, chunks: int, client: WriteClient) -> None:
    try:
        client.decide(batch.writer, decision, chunks, batch.scope)
    except (BatchDecided, BatchCommitted):
        raise SinkError(
            f"{_the(batch)} was decided by another run meanwhile, at node {client.node}: end one "
            "of the two, and run the other again"
        ) from None
    except LogError as error:
        if error.status != 404:
            raise
        raise _ChunksLostError(
            f"{_the(batch)} is staged no more at node {client.node}: {error.reason}; what is "
            "staged expires (--staged-retention)"
        ) from None


def _revoke(batch: Batch, access: Access, address: str) -> None:
    try:
        hurried = access.hurried(_ABORT_S)
        _at(address, hurried, lambda client: client.abort_staged(*batch, decided=True))
    except (NodeError, SourceError) as error:
        logger.info(f"node {address} keeps a decision that is revoked: {why(error)}")


def _finish(batch: Batch, decision: Decision, access: Access) -> None:
    """Commit what is decided at all nodes at once. Raises SinkError or SourceError."""

    def ask(address: str) -> dict[str, Committed | NodeError]:
        commit = partial(_commit_decided, batch)
        # In parallel: each node has the decision, so the order of their commits does not matter.
        return _ask(batch, access, commit, address, _COMMIT_S)

    for address, topics in at_once(ask, dict(decision.nodes)).items():
        for topic, answer in topics.items():
            if not isinstance(answer, Committed):
                raise SinkError(
                    f"{_the(batch)} is not in topic {topic} on node {address}: {why(answer)}. "
                    + _anew(batch)
                )


def _commit_decided(batch: Batch, client: WriteClient) -> dict[str, Committed | NodeError]:
    return client.commit_decided(*batch)


def _the(batch: Batch) -> str:
    return f"batch {batch.number} of writer {batch.writer}"


def _anew(batch: Batch) -> str:
    """The remedy where a decided share is lost."""
    named = urlencode(
        {
            "writer": batch.writer,
            "batch": batch.number,
            "decided": "true",
            **({"scope": batch.scope} if batch.scope else {}),
        }
    )
    return (
        "Bring back the files that the node has lost; or have the batch written once more, which "
        f"may double rows: POST /stage/abort?{named} at each node, and run it again"
    )


# --- nodes that keep no decisions ----------------------------------------------------------------


def _commit_undecided(batch: Batch, staged: Sequence[StagedRows], access: Access) -> None:
    done = {place for each in staged for place in each.done}
    parts = _by_address(staged)
    answers = at_once(partial(_commit_at, batch=batch, parts=parts, access=access), parts)
    for address, topics in answers.items():
        for topic, answer in topics.items():
            if not isinstance(answer, Committed):
                raise SinkError(_not_committed(batch, Place(address, topic), answer))
            if answer.again:
                done.add(Place(address, topic))
    _tell_done(done, batch)


def _tell_done(done: Iterable[Place], batch: Batch) -> None:
    for place in sorted(done):
        logger.warning(
            f"{_the(batch)} is in topic {place.topic} on node {place.address} already, and was not "
            "written again"
        )


def _by_address(staged: Iterable[StagedRows]) -> dict[str, dict[str, list[Part]]]:
    found: dict[str, dict[str, list[Part]]] = {}
    for each in staged:
        for place, part in each.parts.items():
            found.setdefault(place.address, {}).setdefault(place.topic, []).append(part)
    return found


def _commit_at(
    address: str, batch: Batch, parts: Mapping[str, _Parts], access: Access
) -> dict[str, Committed | NodeError]:
    found: dict[str, Committed | NodeError] = {}
    for some in _requests(parts[address]):
        found |= _ask(batch, access, partial(_commit_some, batch, some), address, _COMMIT_S)
    return found


def _commit_some(
    batch: Batch, some: _Parts, client: WriteClient
) -> dict[str, Committed | NodeError]:
    return client.commit_staged(batch.writer, batch.number, some)


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
    failure = f"{_the(batch)} cannot be committed at node {address}"
    patient = replace(access, timeout_s=max(access.timeout_s, silence_s))
    try:
        return persist(lambda: _at(address, patient, ask), failure, access.timeout_s)
    except NoLog:
        raise _OlderError(f"{failure}: it is of an earlier version") from None
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


def _not_committed(batch: Batch, place: Place, error: NodeError) -> str:
    return (
        f"{_the(batch)} is not in topic {place.topic} on node {place.address}: {why(error)}. "
        "Staged messages expire (--staged-retention); run it again"
    )
