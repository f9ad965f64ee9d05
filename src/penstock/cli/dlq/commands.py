"""The four commands of ``penstock dlq``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from penstock.cli.shared.connection_flags import ConnectionFlags, NodeFlags, Texts
from penstock.core.errors import UsageError

Switch = Annotated[bool, Parameter(negative="")]

dlq = App(name="dlq", help="List, show, resend and export dead letters, RocketMQ's too.")


@dlq.command(name="list")
def list_(
    *,
    nodes: NodeFlags | None = None,
    json: Switch = False,
    asking: ConnectionFlags | None = None,
) -> None:
    """List dead-letter topics with the number of open letters, and their ages.

    Parameters
    ----------
    json
        A JSON object a line.
    """
    from penstock.cli.dlq.actions import run_list

    run_list((nodes or NodeFlags()).where(asking), as_json=json)


@dlq.command
def show(
    topic: str,
    /,
    *,
    nodes: NodeFlags | None = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1))] = 20,
    newest: Switch = False,
    id: Texts = (),
    offset: Annotated[tuple[int, ...], Parameter(negative="", show_default=False)] = (),
    channel: Texts = (),
    grep: str | None = None,
    filter: Texts = (),
    json: Switch = False,
    asking: ConnectionFlags | None = None,
) -> None:
    """Show dead letters, the oldest first; nothing changes.

    Parameters
    ----------
    topic
        Dead-letter topic, such as orders.dead or %DLQ%group.
    limit
        Most letters to show.
    newest
        The last ones instead of the first; of all letters, not of chosen ones.
    id
        Only this letter, by its id now or the one it had (may be given several times).
    offset
        Only the letter at this offset (may be given several times).
    channel
        Only letters that came from this channel (may be given several times).
    grep
        Only letters whose body has a match of this regular expression.
    filter
        Only JSON letters with this field, name=value (may be given several times).
    json
        A JSON object a line, with the whole body.
    """
    from penstock.cli.dlq.actions import run_show
    from penstock.cli.dlq.dead_topics import LetterChoice

    choice = LetterChoice(ids=id, offsets=offset, channels=channel, grep=grep, fields=filter)
    if newest and not choice.takes_all:
        raise UsageError("--newest applies to all letters: remove the flags that select some")
    where = (nodes or NodeFlags()).where(asking)
    asyncio.run(run_show(where, topic, choice, limit=limit, newest=newest, as_json=json))


@dlq.command
def resend(
    topic: str,
    /,
    *,
    nodes: NodeFlags | None = None,
    all: Switch = False,
    id: Texts = (),
    offset: Annotated[tuple[int, ...], Parameter(negative="", show_default=False)] = (),
    channel: Texts = (),
    grep: str | None = None,
    filter: Texts = (),
    to: str | None = None,
    client_opt: Texts = (),
    dry_run: Switch = False,
    asking: ConnectionFlags | None = None,
) -> None:
    """Publish dead letters to the topics they came from, and finish them.

    A letter is finished when the node has it again: what is sent does not come back here, and a
    crash in between may send a letter twice. All channels of the topic get it.

    Parameters
    ----------
    topic
        Dead-letter topic, such as orders.dead.
    all
        All letters.
    id
        This letter, by its id now or the one it had (may be given several times).
    offset
        The letter at this offset (may be given several times).
    channel
        Letters that came from this channel (may be given several times).
    grep
        Letters whose body has a match of this regular expression.
    filter
        JSON letters with this field, name=value (may be given several times).
    to
        Publish to this topic instead of the one a letter came from.
    client_opt
        Option of the client that consumes and publishes, name,value, such as tls_v1 or
        auth_secret,... (may be given several times).
    dry_run
        Say what would be sent, and send nothing.
    """
    from penstock.cli.dlq.actions import run_resend
    from penstock.cli.dlq.dead_topics import LetterChoice

    choice = LetterChoice(ids=id, offsets=offset, channels=channel, grep=grep, fields=filter)
    if choice.takes_all != all:
        raise UsageError(
            "say which letters: --all, or some of --id, --offset, --channel, --grep, --filter"
        )
    where = (nodes or NodeFlags()).where(asking)
    asyncio.run(run_resend(where, topic, choice, to=to, dry_run=dry_run, client_options=client_opt))


@dlq.command
def export(
    topic: str,
    /,
    *,
    nodes: NodeFlags | None = None,
    form: Literal["json", "raw"] = "json",
    output: Path | None = None,
    channel: Texts = (),
    grep: str | None = None,
    filter: Texts = (),
    asking: ConnectionFlags | None = None,
) -> None:
    """Write dead letters as JSON lines or raw bodies; nothing changes.

    Parameters
    ----------
    topic
        Dead-letter topic, such as orders.dead or %DLQ%group.
    form
        JSON with where a letter came from, or the bodies alone, a line each.
    output
        New file to write; standard output by default.
    channel
        Only letters that came from this channel (may be given several times).
    grep
        Only letters whose body has a match of this regular expression.
    filter
        Only JSON letters with this field, name=value (may be given several times).
    """
    from penstock.cli.dlq.actions import run_export
    from penstock.cli.dlq.dead_topics import LetterChoice

    choice = LetterChoice(channels=channel, grep=grep, fields=filter)
    where = (nodes or NodeFlags()).where(asking)
    asyncio.run(run_export(where, topic, choice, form=form, output=output))
