"""``penstock dlq``: what its four commands do and print."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Final, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.dlq import dead_topics
from penstock.cli.dlq.dead_topics import DeadTopic, LetterChoice, NotPenstock
from penstock.cli.replay.lines import printable
from penstock.cli.shared.client_options import client_config, config_of
from penstock.cli.shared.node_selection import NodeSelection, places, tcp_address
from penstock.cli.shared.pipes import quiet_pipe
from penstock.cli.shared.stop import INTERRUPTED, Stop
from penstock.cli.shared.times import ago
from penstock.cluster.http_client import HttpClient
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.counted import counted
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.moments import rfc3339
from penstock.core.reasons import reason
from penstock.nsq.client.config import Config
from penstock.nsq.client.names import checked_topic
from penstock.nsq.dead_letters.export import FORMS, stored_letters
from penstock.nsq.dead_letters.listing import count_of, first_of, newest_of
from penstock.nsq.dead_letters.resend import (
    IN_FLIGHT_S,
    WAIT_S,
    LetterChannel,
    Resending,
    Result,
    Target,
    did_not_come,
)
from penstock.nsq.dead_letters.topics import group_of
from penstock.nsq.log_reader import LogReader
from penstock.nsq.pieces import PIECE_MESSAGES
from penstock.nsq.stored import Stored

_SPARE_S: Final = 5.0
_SAY_AFTER: Final = 2


async def planned(
    http: HttpClient, topic: DeadTopic, choice: LetterChoice, to: str | None
) -> Resending:
    """The chosen letters, with the topics they go to."""
    resending = Resending(to or "")
    async for letter in stored_letters(http, topic.place.http, topic.name):
        if choice.takes(letter):
            origin = letter.origin
            came_from = Target("") if origin is None else Target(origin.topic, origin.channel)
            resending.choose(letter.id, came_from)
    return resending


def require_nsq(topic: DeadTopic) -> None:
    """Raise ConfigError for RocketMQ's dead letters."""
    if topic.is_rocketmq:
        raise ConfigError(
            f"the dead letters of RocketMQ's groups cannot be finished from here; copy them with "
            f"penstock replay {topic.name} --to TOPIC"
        )


async def resend(
    http: HttpClient,
    topic: DeadTopic,
    choice: LetterChoice,
    to: str | None,
    stop: Stop,
    config: Config | None = None,
) -> Result:
    """Send the chosen letters of one node's topic, by clients with this ``config``.

    Raises ResendError, ClientError, UpstreamError.
    """
    require_nsq(topic)
    # Letters in flight elsewhere come back when their time is out. After that nothing more comes.
    waits_max = int((IN_FLIGHT_S + _SPARE_S) / WAIT_S)
    channel = LetterChannel(http, topic.place.http, topic.name, config)
    async with channel.opened():
        resending = await planned(http, topic, choice, to)

        def goes_on(waits: int) -> bool:
            left = len(resending.targets)
            if waits == _SAY_AFTER:
                said = counted(left, "letter")
                print(f"waiting for {said} in flight elsewhere", file=sys.stderr)
            return bool(left) and not stop.asked and waits < waits_max

        if resending.targets:
            address = await tcp_address(http, topic.place)
            await channel.resend(address, resending, goes_on, in_flight=PIECE_MESSAGES)
    if not stop.asked:
        resending.result.missing = len(resending.targets)
    return resending.result


_SHOWN_BODY: Final = 2000


def run_list(where: NodeSelection, *, as_json: bool, clock: Clock = SYSTEM_CLOCK) -> None:
    """Print every dead-letter topic of these nodes with its letters and their ages."""
    rows = asyncio.run(_rows(where))
    with quiet_pipe():
        if as_json:
            for row in rows:
                print(json.dumps(row))
        elif rows:
            _print_table(rows, clock.wall_ns())
        else:
            print("no dead-letter topics")


async def _rows(where: NodeSelection) -> list[dict[str, Any]]:
    found: list[DeadTopic] = []
    strangers = []
    async with where.http() as http:
        nodes = await places(http, where)
        for place in nodes:
            try:
                found += await dead_topics.dead_topics(http, place)
            except NotPenstock as error:
                strangers.append(str(error))
        if strangers and len(strangers) == len(nodes):
            raise PenstockError("; ".join(strangers))
        for stranger in strangers:
            print(f"left out: {stranger}", file=sys.stderr)
        return [await summary(http, topic) for topic in found]


@asynccontextmanager
async def _opened_topic(
    where: NodeSelection, name: str
) -> AsyncIterator[tuple[HttpClient, list[DeadTopic]]]:
    """The topic on each node that has it, and how to ask there. Raises PenstockError."""
    async with where.http() as http:
        nodes = await places(http, where, name)
        yield http, await dead_topics.dead_topic(http, nodes, name)


async def run_show(
    where: NodeSelection,
    name: str,
    choice: LetterChoice,
    *,
    limit: int,
    newest: bool,
    as_json: bool,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Print dead letters with where they came from; nothing changes."""
    left = limit
    with quiet_pipe():
        async with _opened_topic(where, name) as (http, found):
            for topic in found:
                runs = await dead_topics.open_runs(http, topic)
                if newest and choice.takes_all:
                    runs = newest_of(runs, left)
                async for letter in LogReader(http, topic.place.http, name).messages(runs):
                    if not choice.takes(letter):
                        continue
                    if left == 0:
                        return
                    left -= 1
                    if as_json:
                        print(FORMS["json"](topic.place.shown, name, letter).decode(), end="")
                    else:
                        print(described(topic, letter, clock.wall_ns()))
        if left == limit and not as_json:
            print("no such dead letters", file=sys.stderr)


async def run_resend(
    where: NodeSelection,
    name: str,
    choice: LetterChoice,
    *,
    to: str | None,
    dry_run: bool,
    client_options: Sequence[str] = (),
) -> None:
    """Send dead letters again and say what became of them. Raises PenstockError."""
    config = client_config(client_options, config_of(where.access))
    if to is not None:
        checked_topic(to, "MPUB")
    missing = 0
    async with _opened_topic(where, name) as (http, found):
        for topic in found:
            require_nsq(topic)
        with Stop() as stop:
            for topic in found:
                if stop.asked:
                    break
                if dry_run:
                    plan = await planned(http, topic, choice, to)
                    result = Result(
                        Counter(each.topic for each in plan.targets.values()), plan.result.orphans
                    )
                else:
                    result = await resend(http, topic, choice, to, stop, config)
                missing += result.missing
                _print_result(topic, result, "would send" if dry_run else "sent")
            if stop.asked:
                print("stopped; what was not sent stays, the same command goes on", file=sys.stderr)
                sys.exit(INTERRUPTED)
    if missing:
        raise PenstockError(did_not_come(missing))


async def run_export(
    where: NodeSelection,
    name: str,
    choice: LetterChoice,
    *,
    form: Literal["json", "raw"],
    output: Path | None,
) -> None:
    """Write dead letters to a file or standard output; nothing changes."""
    count, line = 0, FORMS[form]
    async with _opened_topic(where, name) as (http, found):
        with quiet_pipe(), _opened(output) as file:
            for topic in found:
                async for letter in stored_letters(http, topic.place.http, name):
                    if choice.takes(letter):
                        file.write(line(topic.place.shown, name, letter))
                        count += 1
            file.flush()
    print(counted(count, "letter") + (f" in {output}" if output else ""), file=sys.stderr)


async def summary(http: HttpClient, topic: DeadTopic) -> dict[str, Any]:
    """A dead-letter topic in figures; times are wall-clock ns, null without letters."""
    runs = await dead_topics.open_runs(http, topic)
    ends = [*first_of(runs), *newest_of(runs, 1)]
    log = LogReader(http, topic.place.http, topic.name)
    at_ends = [letter async for letter in log.messages(ends)]
    oldest, newest = (at_ends[0], at_ends[-1]) if at_ends else (None, None)
    origin = oldest.origin if oldest is not None else None
    return {
        "node": topic.place.shown,
        "topic": topic.name,
        "kind": "rocketmq" if topic.is_rocketmq else "nsq",
        "letters": count_of(runs),
        "oldest_ns": oldest.timestamp_ns if oldest else None,
        "newest_ns": newest.timestamp_ns if newest else None,
        "origin": f"{origin.topic}/{origin.channel}" if origin else group_of(topic.name),
    }


def described(topic: DeadTopic, letter: Stored, now_ns: int) -> str:
    """A letter in a few lines for people."""
    came_ns = letter.timestamp_ns
    is_dead = letter.origin is not None or topic.is_rocketmq
    lines = [
        f"{topic.name} offset {letter.offset}  id {letter.id}  {counted(len(letter.body), 'byte')}",
        f"  {'dead since' if is_dead else 'published'} {rfc3339(came_ns)}"
        f" ({ago(now_ns - came_ns)} ago)",
    ]
    if letter.origin is not None:
        origin = letter.origin
        lines.append(
            f"  from {origin.topic}/{origin.channel} after {counted(origin.attempts, 'attempt')}, "
            f"there id {origin.id}"
        )
    elif topic.is_rocketmq:
        lines.append(f"  from group {group_of(topic.name)}")
    else:
        lines.append("  no dead letter: somebody published it here")
    body = printable(letter.body[:_SHOWN_BODY])
    cut = " …" if len(letter.body) > _SHOWN_BODY else ""
    lines += [f"  | {line}" for line in (body + cut).split("\n")]
    return "\n".join(lines) + "\n"


def _print_result(topic: DeadTopic, result: Result, done: str) -> None:
    where = f"{topic.place.shown} {topic.name}"
    if not result.sent:
        print(f"{where}: nothing {'to send' if done == 'sent' else 'would be sent'}")
    for target, count in sorted(result.sent.items()):
        print(f"{where}: {done} {count:,} to topic {target}")
    if result.orphans:
        print(f"{where}: {result.orphans:,} do not say where they came from; give --to")


def _print_table(rows: Sequence[dict[str, Any]], now_ns: int) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify in (
        ("NODE", "left"),
        ("TOPIC", "left"),
        ("LETTERS", "right"),
        ("OLDEST", "right"),
        ("NEWEST", "right"),
        ("FROM", "left"),
    ):
        table.add_column(title, justify="right" if justify == "right" else "left", no_wrap=True)
    for row in rows:
        ages = [_age(row[name], now_ns) for name in ("oldest_ns", "newest_ns")]
        letters_ = Text(f"{row['letters']:,}", style="bold red" if row["letters"] else "green")
        table.add_row(row["node"], row["topic"], letters_, *ages, row["origin"] or "-")
    console = Console() if sys.stdout.isatty() else Console(width=10_000)
    console.print(table, soft_wrap=True)


def _age(ns: int | None, now_ns: int) -> str:
    return "-" if ns is None else ago(now_ns - ns)


@contextlib.contextmanager
def _opened(output: Path | None) -> Iterator[IO[bytes]]:
    if output is None:
        yield sys.stdout.buffer
        return
    try:
        with output.open("xb") as file:
            try:
                yield file
            except BaseException:  # some of the letters, which would be in the way of all of them
                output.unlink(missing_ok=True)
                raise
    except FileExistsError:
        raise ConfigError(f"{output} exists; it is not overwritten") from None
    except OSError as error:
        raise PenstockError(f"{output}: {reason(error)}") from error
