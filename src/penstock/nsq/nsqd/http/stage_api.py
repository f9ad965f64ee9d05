"""Stage and commit over HTTP: what writers that want each message exactly once use.

Tasks of a writer stage parts of a batch, which nobody sees. The leader of the writer commits the
batch and names the attempts that count. Committing once more does nothing. A leader of several
topics or nodes has the attempts written down first, at each node, and then commits what is decided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from penstock.broker.publish.decisions import (
    ChunksMissingError,
    DecidedError,
    Decision,
    Key,
    NodeShare,
    NotDecidedError,
)
from penstock.broker.publish.parts import (
    Attempt,
    ChunkKey,
    PartNotFoundError,
    StagedBatch,
    StageFullError,
)
from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.malformed import MALFORMED
from penstock.core.units import SECOND
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, ApiRouter, Query
from penstock.node.dialect import StagingError
from penstock.node.http.api_arguments import NUMBER_MAX, number, topic_named
from penstock.node.http.many_topics import TOPICS_MAX, check_number
from penstock.nsq.nsqd.http.refusals import refusal
from penstock.nsq.nsqd.http.staged_parts import CommittedError, StagedParts

WRITER_MAX: Final = 128
SCOPE_MAX: Final = 255
"""Characters of a topic's name, at most."""
ROWS_MAX: Final = 10_000
"""The most rows of GET /stage."""
NODES_MAX: Final = 1000
"""The most nodes of a decision."""
_NSQ: Final = "nsq"
_STATUSES: Final = {"MSG_TOO_BIG": 413, "TOPIC_NOT_FOUND": 404}
_COMMIT_MAX: Final = 4 * 1024 * 1024
_Place: TypeAlias = tuple[str, str]  # topic and writer
_Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]


class _Attempt(msgspec.Struct):
    part: _Number
    attempt: _Number
    chunks: _Number


class _Commit(msgspec.Struct):
    topics: dict[str, list[_Attempt]]


_Address = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]


class _Share(msgspec.Struct):
    address: _Address
    chunks: _Number


class _Decision(msgspec.Struct):
    nodes: Annotated[list[_Share], msgspec.Meta(min_length=1, max_length=NODES_MAX)]
    attempts: list[tuple[_Number, _Number]]


class StageApi:
    """The /stage endpoints of one nsqd."""

    def __init__(
        self, topics: Mapping[str, Topic], staged_parts: StagedParts, clock: Clock
    ) -> None:
        self._topics = topics
        self._staged_parts = staged_parts
        self._clock = clock

    def add_routes(self, router: ApiRouter, max_body: int) -> None:
        """``max_body`` bytes are the most of one chunk."""
        router.v1("POST", "/stage", self._stage, quiet=True, max_body=max_body)
        router.v1("POST", "/stage/commit", self._commit, max_body=_COMMIT_MAX, quiet=True)
        router.v1("POST", "/stage/decide", self._decide, max_body=_COMMIT_MAX, quiet=True)
        router.v1("GET", "/stage/decision", self._decision, quiet=True)
        router.v1("POST", "/stage/abort", self._abort)
        router.v1("GET", "/stage", self._show)

    # --- staging -------------------------------------------------------------------------------

    async def _stage(self, request: Request) -> Any:
        query = Query.parse(request.query)
        writer, batch = _writer(query), number(query, "batch", None)
        key = ChunkKey(*(number(query, name, None) for name in ChunkKey._fields))
        staging = self._staged_parts.staging(query.get("dialect") or _NSQ)
        if staging is None:
            raise ApiError(400, "DIALECT_NOT_SPOKEN")
        name, body = query.required("topic"), request.body
        _, scope = _key(query)
        if scope not in ("", name):
            raise ApiError(400, "INVALID_ARG_SCOPE")
        try:
            topic = await staging.topic(name)
            count = await self._staged_parts.stage(staging, topic, writer, batch, key, body, scope)
        except StagingError as error:
            status, reason = _STATUSES.get(error.code, 400), error.text
            raise ApiError(status, error.code, **({"reason": reason} if reason else {})) from None
        except CommittedError as error:
            raise ApiError(409, "BATCH_COMMITTED", batch=error.last) from None
        except DecidedError as error:
            raise _decided(error, batch) from None
        except StageFullError as error:
            raise ApiError(507, "STAGE_FULL", limit=error.limit) from None
        except StorageError as error:
            raise refusal(error) from None
        return {"count": count, "bytes": len(body)}

    # --- deciding ------------------------------------------------------------------------------

    async def _decide(self, request: Request) -> Any:
        query = Query.parse(request.query)
        key, batch = _key(query), number(query, "batch", None)
        chunks = number(query, "chunks", None)
        try:
            given = msgspec.json.decode(request.body, type=_Decision)
        except MALFORMED:
            raise ApiError(400, "INVALID_BODY") from None
        nodes = [NodeShare(each.address, each.chunks) for each in given.nodes]
        # Two attempts at one part would be its messages twice.
        if len({part for part, _ in given.attempts}) < len(given.attempts):
            raise ApiError(400, "DUPLICATE_PART")
        try:
            await self._staged_parts.decide(key, batch, nodes, given.attempts, chunks)
        except DecidedError as error:
            raise _decided(error, batch) from None
        except ChunksMissingError as error:
            raise ApiError(404, "PART_NOT_FOUND", missing=error.missing) from None
        except StorageError as error:
            raise refusal(error) from None
        return {}

    def _decision(self, request: Request) -> Any:
        """Show the writer's last decision."""
        last = self._staged_parts.decisions.last(_key(Query.parse(request.query)))
        if last is None:
            return {"decision": None}
        left = self._staged_parts.to_commit(last)
        decision = {
            "batch": last.batch,
            "nodes": [{"address": each.address, "chunks": each.chunks} for each in last.nodes],
            "attempts": last.attempts,
            "begun": last.done or len(left) < len(last.topics),
            "done": last.done,
        }
        return {"decision": decision}

    async def _commit_decided(self, key: Key, batch: int) -> Any:
        """Commit what was decided, in as many topics as one request may name."""
        try:
            decision = self._staged_parts.decisions.of(key, batch)
        except DecidedError as error:
            raise _decided(error, batch) from None
        except NotDecidedError:
            raise ApiError(404, "BATCH_NOT_DECIDED") from None
        left = self._staged_parts.to_commit(decision)
        answers = {
            topic.name: await self._one_decided(topic, decision) for topic in left[:TOPICS_MAX]
        }
        if not self._staged_parts.to_commit(decision):
            self._staged_parts.decisions.finished(decision)
        return {"topics": answers, "more": len(left) > TOPICS_MAX}

    async def _one_decided(self, topic: Topic, decision: Decision) -> dict[str, Any]:
        try:
            count = await self._staged_parts.commit_decided(topic, decision)
        except CommittedError:
            return {"count": 0, "again": True}
        except ChunksMissingError as error:
            return ApiError(404, "PART_NOT_FOUND", missing=error.missing).content
        except PartNotFoundError as error:
            return ApiError(404, "PART_NOT_FOUND", **error.key._asdict()).content
        except StorageError as error:
            refused = refusal(error)
            raise ApiError(refused.status, refused.code, topic=topic.name) from None
        return {"count": count, "again": False}

    # --- committing ----------------------------------------------------------------------------

    async def _commit(self, request: Request) -> Any:
        query = Query.parse(request.query)
        writer, batch = _writer(query), number(query, "batch", None)
        if query.get("decided") == "true":
            return await self._commit_decided(_key(query), batch)
        topics = _attempts(request.body)
        answers: dict[str, Any] = {}
        for name, attempts in topics.items():
            try:
                answers[name] = await self._commit_topic(name, writer, batch, attempts)
            except StorageError as error:
                refused = refusal(error)
                raise ApiError(refused.status, refused.code, topic=name) from None
            except ApiError as error:
                answers[name] = error.content
        return {"topics": answers}

    async def _commit_topic(
        self, name: str, writer: str, batch: int, attempts: Sequence[Attempt]
    ) -> dict[str, Any]:
        topic = topic_named(self._topics, name)
        try:
            count = await self._staged_parts.commit(topic, writer, batch, attempts)
        except CommittedError:
            return {"count": 0, "again": True}
        except PartNotFoundError as error:
            raise ApiError(404, "PART_NOT_FOUND", **error.key._asdict()) from None
        return {"count": count, "again": False}

    async def _abort(self, request: Request) -> Any:
        """Drop what is staged; what is decided too where ``decided=true`` says so."""
        query = Query.parse(request.query)
        key, batch = _key(query), number(query, "batch", None)
        last = self._staged_parts.decisions.last(key)
        # Other nodes may have committed their share of it already.
        if last is not None and last.batch == batch and query.get("decided") != "true":
            raise ApiError(409, "BATCH_DECIDED", batch=batch)
        try:
            await self._staged_parts.revoke(key, batch)
        except StorageError as error:
            raise refusal(error) from None
        return {}

    # --- looking -------------------------------------------------------------------------------

    def _show(self, request: Request) -> Any:
        """Show what is staged and the last commits, of all writers and topics or those named."""
        query = Query.parse(request.query)
        topic, writer = query.get("topic"), query.get("writer")
        staged: dict[_Place, list[StagedBatch]] = {}
        for each in self._staged_parts.parts:
            staged.setdefault((each.topic, each.writer), []).append(each)
        wanted = (
            place
            for place in self._places(staged)
            if topic in (None, place[0]) and writer in (None, place[1])
        )
        rows = [self._row(*place, staged.get(place, [])) for place in islice(wanted, ROWS_MAX)]
        return {"writers": rows, "more": next(wanted, None) is not None}

    def _places(self, staged: Collection[_Place]) -> Iterator[_Place]:
        """The places where something is staged, then those that have only a last commit."""
        yield from staged
        for topic in self._topics.values():
            known = ((topic.name, record.name) for record in topic.writers)
            yield from (place for place in known if place not in staged)

    def _row(self, topic: str, writer: str, staged: Sequence[StagedBatch]) -> dict[str, Any]:
        of = self._topics.get(topic)
        record = of.writers.record(writer) if of is not None else None
        decisions = (self._staged_parts.decisions.last((writer, each)) for each in ("", topic))
        decided = [each.batch for each in decisions if each is not None]
        if staged:
            age = self._clock.monotonic_ns() - max(each.staged_ns for each in staged)
        else:
            age = self._clock.wall_ns() - (record.wall_ns if record is not None else 0)
        return {
            "writer": writer,
            "topic": topic,
            "committed": None if record is None else record.batch,
            "decided": max(decided, default=None),
            "staged_bytes": sum(each.nbytes for each in staged),
            "staged_batches": sorted(each.batch for each in staged),
            "age_s": round(max(0, age) / SECOND, 1),
        }


def _decided(error: DecidedError, batch: int) -> ApiError:
    """The refusal of a batch that is decided, or is older than one that is and so committed."""
    last = error.decision.batch
    return ApiError(409, "BATCH_DECIDED" if last == batch else "BATCH_COMMITTED", batch=last)


def _key(query: Query) -> Key:
    """The writer, and the one topic that it decides on, if it says so."""
    scope = query.get("scope") or ""
    if len(scope) > SCOPE_MAX or not scope.isprintable():
        raise ApiError(400, "INVALID_ARG_SCOPE")
    return _writer(query), scope


def _writer(query: Query) -> str:
    writer = query.required("writer")
    if not 0 < len(writer) <= WRITER_MAX or not writer.isprintable():
        raise ApiError(400, "INVALID_ARG_WRITER")
    return writer


def _attempts(body: bytes) -> dict[str, list[Attempt]]:
    """The attempts that count, by topic; ApiError 400."""
    try:
        given = msgspec.json.decode(body, type=_Commit).topics
    except MALFORMED:
        raise ApiError(400, "INVALID_BODY") from None
    check_number(given)
    topics = {}
    for name, attempts in given.items():
        if len({each.part for each in attempts}) < len(attempts):
            raise ApiError(400, "DUPLICATE_PART", topic=name)
        topics[name] = [Attempt(each.part, each.attempt, each.chunks) for each in attempts]
    return topics
