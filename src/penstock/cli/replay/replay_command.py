"""``penstock replay``: read a topic's log and print it, or publish it again."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from penstock.cli.replay.lines import Form
from penstock.cli.replay.selection import BodyFilter, LogRange
from penstock.cli.replay.sinks import (
    Nowhere,
    Printing,
    Publishing,
    Sink,
    SinkError,
)
from penstock.cli.shared.client_options import client_config, config_of, without_secret
from penstock.cli.shared.connection_flags import flags_of
from penstock.cli.shared.node_selection import (
    TIMEOUT_S,
    NodeAddress,
    NodeSelection,
    places,
    tcp_address,
)
from penstock.cli.shared.pipes import quiet_pipe
from penstock.cli.shared.stop import INTERRUPTED, Stop
from penstock.cluster.blocking import secured
from penstock.cluster.reasons import reason_of
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.counted import counted
from penstock.core.errors import ConfigError, PenstockError, UsageError
from penstock.core.names import NAME_FORM, is_valid_name
from penstock.core.redaction import without_secrets
from penstock.core.units import SECOND
from penstock.log_api.errors import LogError, NodeUnreachable, OffsetOutOfRange, TopicNotFound
from penstock.log_api.log_client import LogClient
from penstock.net.http.client.keep_alive import Tls
from penstock.nsq.client.names import checked_addresses
from penstock.nsq.pieces import PIECE_MESSAGES, pieces
from penstock.nsq.stored import Stored, StoredRange
from penstock.storage.batch import Batch, CorruptBatchError


class OffsetGone(PenstockError):
    """Retention has let go of what was to be read."""


class NoLog(PenstockError):
    """The node is an nsqd without a log to read."""


def stretches(
    client: LogClient, topic: str, first: int, end: int, *, queue: int = 0
) -> Iterator[StoredRange]:
    """Stretches of the log at offsets ``[first, end)``; what a damaged disk has lost is left out.

    Raises OffsetGone, NoLog, and what ``LogClient.fetch`` does.
    """
    while first < end:
        try:
            fetched = client.fetch(topic, first, queue=queue)
        except OffsetOutOfRange as error:
            raise OffsetGone(
                f"offset {first} of topic {topic!r} is gone from {client.node}, "
                f"which holds {error.start} to {error.end - 1}"
            ) from error
        except LogError as error:
            raise no_log(error) from error
        read = first
        for batch in _batches(fetched.data, topic, client.node):
            low, high = max(first, batch.first_offset), min(end, batch.next_offset)
            read = max(read, batch.next_offset)
            if low < high:
                yield StoredRange(batch, low, high)
        if read == first:
            return
        first = read


def no_log(error: LogError) -> PenstockError:
    """An error for users: NoLog for another nsqd, else the error as it is."""
    if error.status == 404 and error.reason == "NOT_FOUND":
        return NoLog(f"{error.node} is not a Penstock node: it keeps no log that can be read")
    return error


def _batches(data: bytes, topic: str, node: str) -> Iterator[Batch]:
    from penstock.storage.batch import iter_batches

    try:
        yield from iter_batches(data)
    except CorruptBatchError as error:
        raise PenstockError(f"{node} sent damaged data of topic {topic!r}: {error}") from error


# At a wanted rate: larger pieces would come in bursts, smaller ones cost a publish each.
_BATCHES_PER_S: Final = 20


class Incomplete(PenstockError):
    """The replay ended before its end; the text has the command to go on."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The messages to replay, and where to."""

    topic: str
    where: NodeSelection = field(default_factory=NodeSelection)
    span: LogRange = field(default_factory=LogRange)
    queue: int = 0
    count: int | None = None
    grep: str | None = None
    filters: Sequence[str] = ()
    form: Form = "text"
    to: str | None = None
    to_nsqd: str | None = None
    rate: int = 0
    dry_run: bool = False
    client_options: Sequence[str] = ()

    def check(self) -> None:
        """Raise PenstockError for what makes no sense."""
        BodyFilter(self.grep, self.filters)
        if self.to is not None:
            if not is_valid_name(self.to):
                raise UsageError(f"--to {self.to}: it is not a topic's name; give {NAME_FORM}")
            client_config(self.client_options)
            self._check_target()
        elif self.to_nsqd is not None:
            raise UsageError("--to-nsqd goes with --to, the topic to publish to")
        elif self.client_options:
            raise UsageError("--client-opt goes with --to, the topic to publish to")

    def _check_target(self) -> None:
        try:
            checked_addresses([self.to_nsqd] if self.to_nsqd is not None else [])
        except ValueError as error:
            raise UsageError(f"--to-nsqd: {error}") from None

    def command(self, node: str, first: int, end: int, count: int | None) -> str:
        """The command that does what is left on a node."""
        words = ["penstock", "replay", self.topic, "--nsqd-http-address", node]
        words += ["--from-offset", str(first), "--to-offset", str(end)]
        pairs = [("--queue", self.queue or None), ("--count", count), ("--grep", self.grep)]
        pairs += [("--filter", text) for text in self.filters]
        if self.to is None:
            pairs += [("--print", self.form)]
        pairs += [("--to", self.to), ("--to-nsqd", self.to_nsqd), ("--rate", self.rate or None)]
        pairs += [("--client-opt", without_secret(text)) for text in self.client_options]
        for flag, value in pairs:
            words += [flag, str(value)] if value is not None else []
        return shlex.join(words + ["--dry-run"] * self.dry_run + flags_of(self.where.access))


@dataclass(slots=True)
class NodePart:
    """One node's share: offsets ``[first, end)``, of which those before ``at`` are done."""

    place: NodeAddress
    client: LogClient
    first: int
    end: int
    at: int
    log: str = ""
    """The id of the log; a node has it under each of its addresses, and a copy of it too."""
    taken: int = 0
    nbytes: int = 0
    others: int = 0
    """Messages that did not match, or that are empty and cannot be published."""


def run_replay(order: ReplayOptions, clock: Clock = SYSTEM_CLOCK) -> None:
    """Replay; a summary at the end goes to standard error. Raises PenstockError."""
    order.check()
    with contextlib.ExitStack() as stack, Stop(clock) as stop:
        parts = _parts(order, stack)
        replay = _Replay(order, stop, clock)
        began = clock.monotonic_ns()
        try:
            with quiet_pipe(), _progress(order, parts) as advance:
                for part in parts:
                    replay.run(part, advance)
        except PenstockError as error:
            if all(part.at == part.first for part in parts):
                raise
            raise Incomplete(f"{error}\n{_rest(order, parts, replay.left)}") from error
        _conclude(order, parts, (clock.monotonic_ns() - began) / SECOND)
        if stop.asked:
            print(_rest(order, parts, replay.left), file=sys.stderr)
            sys.exit(INTERRUPTED)


class _Replay:
    """The work on one node after the other."""

    def __init__(self, order: ReplayOptions, stop: Stop, clock: Clock) -> None:
        self.left = order.count
        self._order = order
        self._stop = stop
        self._clock = clock
        self._filter = BodyFilter(order.grep, order.filters)
        self._most = PIECE_MESSAGES
        if order.rate:
            self._most = max(1, min(PIECE_MESSAGES, order.rate // _BATCHES_PER_S))
        self._due_ns = clock.monotonic_ns()

    def run(self, part: NodePart, advance: Progressing) -> None:
        """Read a node's share and hand it on, as long as nobody says stop."""
        if self._stop.asked or self.left == 0:
            return
        order = self._order
        sink = self._sink(part)
        try:
            for stretch in stretches(
                part.client, order.topic, part.first, part.end, queue=order.queue
            ):
                messages = list(stretch.messages())
                for piece in pieces(messages, self._most):
                    self._hand_on(part, sink, piece)
                    advance(part)
                    if self._stop.asked or self.left == 0:
                        return
            part.at = part.end
            advance(part)
        except SinkError as error:
            part.at = error.offset
            raise
        finally:
            sink.close()

    def _hand_on(self, part: NodePart, sink: Sink, piece: Sequence[Stored]) -> None:
        wanted = list(piece)
        if not self._filter.takes_all:
            wanted = [message for message in piece if self._filter.takes(message.body)]
        done = piece[-1].offset + 1
        if self.left is not None and len(wanted) >= self.left:
            wanted = wanted[: self.left]
            done = wanted[-1].offset + 1
        if wanted:
            self._pace(len(wanted))
            if self._stop.asked:
                return
        taken = sink.put(wanted) if wanted else 0
        part.taken += taken
        part.nbytes += sum(len(message.body) for message in wanted)
        part.others += done - piece[0].offset - taken
        part.at = done
        if self.left is not None:
            self.left -= len(wanted)

    def _pace(self, count: int) -> None:
        if self._order.rate:
            self._stop.sleep_until(self._due_ns)
            now = self._clock.monotonic_ns()
            # Time that was lost to a slow node is not made up for: that would be a burst.
            self._due_ns = max(now, self._due_ns) + count * SECOND // self._order.rate

    def _sink(self, part: NodePart) -> Sink:
        order = self._order
        if order.dry_run:
            return Nowhere()
        if order.to is None:
            return Printing(order.form)
        base = config_of(order.where.access) if order.to_nsqd is None else None
        config = client_config(order.client_options, base)
        return Publishing(order.to, order.to_nsqd or part.place.tcp, config)


def _parts(order: ReplayOptions, stack: contextlib.ExitStack) -> list[NodePart]:
    """The parts of the work, one a node, all nodes asked before anything is done."""
    parts = []
    refusals: list[PenstockError] = []
    access = order.where.access
    tls = Tls(access.new_context(), access.server_name) if access.concerns_tls else None
    for found in asyncio.run(_places(order)):
        place = found._replace(http=secured(found.http, access, TIMEOUT_S))
        try:
            parts.append(_part(order, place, tls, stack))
        except (TopicNotFound, NoLog) as error:
            refusals.append(error)
    if not parts:
        raise refusals[0] if refusals else PenstockError(f"no node has topic {order.topic!r}")
    for refusal in refusals:
        print(f"left out: {without_secrets(str(refusal))}", file=sys.stderr)
    parts = _distinct(parts)
    if len(parts) > 1 and order.span.has_offsets:
        nodes = ", ".join(part.place.shown for part in parts)
        raise ConfigError(f"offsets are those of one node, the topic is on {nodes}: choose one")
    return parts


def _distinct(parts: Sequence[NodePart]) -> list[NodePart]:
    """Each log once, from whoever has most of it."""
    found: dict[str, NodePart] = {}
    for part in sorted(parts, key=lambda each: each.end, reverse=True):
        known = found.setdefault(part.log or part.place.http, part)
        if known is not part:
            where = f"{part.place.shown} has the same log as {known.place.shown}"
            print(f"left out: {where}", file=sys.stderr)
    return [part for part in parts if part in found.values()]


async def _places(order: ReplayOptions) -> list[NodeAddress]:
    """The nodes; by default what is published goes back there."""
    publishes = order.to is not None and order.to_nsqd is None and not order.dry_run
    async with order.where.http() as http:
        return [
            place._replace(tcp=await tcp_address(http, place)) if publishes else place
            for place in await places(http, order.where, order.topic)
        ]


def _part(
    order: ReplayOptions, place: NodeAddress, tls: Tls | None, stack: contextlib.ExitStack
) -> NodePart:
    try:
        log = LogClient(place.http, tls=tls, headers=order.where.access.headers)
        client = stack.enter_context(log)
        bounds = {queue.queue: queue for queue in client.offsets(order.topic).queues}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except LogError as error:
        raise no_log(error) from error
    except NodeUnreachable as error:
        why = reason_of(error.__cause__ or error, place.http)
        text = f"{place.shown} cannot be reached: {why.plain}{why.remedy}"
        raise PenstockError(text) from error
    if order.queue not in bounds:
        raise ConfigError(f"topic {order.topic!r} on {place.shown} has no queue {order.queue}")
    held = bounds[order.queue]
    first, end = order.span.bounds(client, order.topic, order.queue, held.start, held.end)
    return NodePart(place, client, first, end, first, held.log)


# --- what people see ---


class Progressing:
    """A bar on standard error; nothing when that is not a terminal, or when messages go there."""

    def __init__(self, progress: Progress | None, task: TaskID | None) -> None:
        self._progress = progress
        self._task = task
        self._part: NodePart | None = None
        self._before = 0

    def __call__(self, part: NodePart) -> None:
        if self._progress is not None and self._task is not None:
            if part is not self._part:
                self._part, self._before = part, 0
            done = part.at - part.first
            self._progress.advance(self._task, done - self._before)
            self._before = done


@contextlib.contextmanager
def _progress(order: ReplayOptions, parts: Sequence[NodePart]) -> Iterator[Progressing]:
    prints_here = order.to is None and not order.dry_run and sys.stdout.isatty()
    if prints_here or not sys.stderr.isatty():
        yield Progressing(None, None)
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task(order.topic, total=sum(part.end - part.first for part in parts))
        yield Progressing(progress, task)


def _conclude(order: ReplayOptions, parts: Sequence[NodePart], elapsed_s: float) -> None:
    """Print what was done, a line a node."""
    done = "would replay" if order.dry_run else "published" if order.to else "printed"
    for part in parts:
        where = f"{part.place.shown} topic {order.topic}"
        counts = f"{counted(part.taken, 'message')}, {counted(part.nbytes, 'byte')}"
        line = f"{where}: {done} {counts}"
        if part.at > part.first:
            line += f", offsets {part.first} to {part.at - 1}"
        if part.others:
            line += f", {part.others:,} left out"
        if order.to is not None:
            line += f", to topic {order.to}"
        print(f"{line}, in {elapsed_s:.1f} s" if len(parts) == 1 else line, file=sys.stderr)
    if len(parts) > 1:
        total = sum(part.taken for part in parts)
        print(f"{counted(total, 'message')} in {elapsed_s:.1f} s", file=sys.stderr)


def _rest(order: ReplayOptions, parts: Sequence[NodePart], left: int | None) -> str:
    """The offset that each unfinished node got to, and the command to go on."""
    lines = []
    for part in parts:
        if part.at < part.end:
            lines.append(f"{part.place.shown}: done up to, not including, offset {part.at}; go on:")
            lines.append(f"  {order.command(part.place.shown, part.at, part.end, left)}")
    return "\n".join(lines)
