"""The pages of docs/reference. `make pages` writes them, `test_pages.py` checks that it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.admin.admin_options import AdminOptions
from penstock.cli.flags.programs import nsq_programs
from penstock.core.settings.options import Flags
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from tools.pages.documentation import DOCS

from . import endpoints, flags, properties
from .endpoints import Endpoints
from .tables import code, table

FOLDER: Final = DOCS / "reference"
DAEMONS: Final = {"nsqd": NsqdOptions, "nsqlookupd": LookupdOptions, "nsqadmin": AdminOptions}

_NSQ: Final = """# NSQ's daemons: flags and endpoints

[nsqd](../nsqd.md), [nsqlookupd](../nsqlookupd.md) and [nsqadmin](../nsqadmin.md) explain them. This
page is written by `make pages`, from what the programs themselves declare.

A flag wins over the configuration file (`--config`, TOML), the file over the default. A switch may
stand alone, meaning true. Durations are written as `500ms`, `10s`, `1m30s` or `2h`, sizes in bytes.
HTTP parameters stand in the query and bodies are JSON, unless the line says otherwise; one with `?`
may be left out.

"""
_ROCKETMQ: Final = """# RocketMQ's daemons: flags, properties and endpoints

[RocketMQ's broker and name server](../rocketmq.md) explains them. This page is written by
`make pages`, from what the programs themselves declare.

Short flags are those of Java: `-c`, `-p`, `-h`; of mqbroker also `-n` and `-m`. Properties are
those of the file of `-c`, under Java's names; times are milliseconds and sizes bytes, unless the
line says otherwise. *start*: read at the start only; `mqadmin updateBrokerConfig` changes the
others. Both programs answer these requests on the port of `monitoringAddress`:

"""


_ARGUMENTS: Final = """## Arguments of several commands

A command lists these by name; what they mean stands here.

"""
_COLUMNS: Final = ("argument", "default", "")
_FLAG_COLUMNS: Final = ("flag, TOML key", "default", "")
_SHARED_BY: Final = 4
"""From this number of commands on an argument is explained once for all."""


def files() -> dict[Path, str]:
    """Every page with what it should have."""
    pages = {
        "nsq": _daemons(),
        "rocketmq": _ROCKETMQ
        + _endpoints(endpoints.VITALS)
        + _java("mqbroker", BrokerSettings)
        + _java("mqnamesrv", NamesrvSettings),
        "tools": _tools(),
        "penstock": _penstock(),
    }
    return {FOLDER / f"{name}.md": f"{text.rstrip()}\n" for name, text in pages.items()}


def _head(title: str, guide: str) -> str:
    """The title, and where the subject is explained."""
    return (
        f"# {title}\n\n{guide} explains it. This page is written by `make pages`, from what "
        "the program itself declares.\n\n"
    )


def _daemons() -> str:
    """What all three have first, then what each has besides."""
    rows = {name: flags.of_daemon(each) for name, each in DAEMONS.items()}
    common = [row for row in rows["nsqd"] if all(row in others for others in rows.values())]
    known = endpoints.DAEMONS
    of_all = {
        route: about
        for route, about in known["nsqd"].items()
        if all(others.get(route) == about for others in known.values())
    }
    parts = [_NSQ, "## All three\n\n", table(_FLAG_COLUMNS, common), _endpoints(of_all)]
    for name in DAEMONS:
        own = [row for row in rows[name] if row not in common]
        others = {each: about for each, about in known[name].items() if each not in of_all}
        parts += [f"## {name}\n\n### Flags of {name}\n\n", table(_FLAG_COLUMNS, own)]
        parts += [f"### HTTP of {name}\n\n", _endpoints(others)]
    return "".join(parts)


def _endpoints(known: Endpoints) -> str:
    rows = [[code(route), takes, does] for route, (takes, does) in known.items()]
    return table(["request", "takes", ""], rows)


def _tools() -> str:
    tools: dict[str, type[Flags]] = {n: f for n, f in nsq_programs().items() if n not in DAEMONS}
    parts = [f"## {name}\n\n{flags.of_tool(each)}" for name, each in tools.items()]
    return _head("NSQ's tools: flags", "[The tools of NSQ](../tools.md)") + "".join(parts)


def _penstock() -> str:
    """The commands, each with the arguments that not many others have."""
    known = {words: flags.arguments(command) for words, command in flags.commands()}
    uses = Counter(row for rows in known.values() for row in rows)
    shared = [row for row, count in uses.items() if count >= _SHARED_BY]
    parts = [_head("penstock: commands", "[The penstock command](../cli.md)")]
    parts += [_ARGUMENTS, table(_COLUMNS, shared)]
    for words, command in flags.commands():
        own = [row for row in known[words] if row not in shared]
        others = ", ".join(_short(row[0] for row in known[words] if row in shared))
        parts.append(f"## {words}\n\n{flags.about_command(command)}\n\n")
        parts.append(table(_COLUMNS, own) if own else "")
        parts.append(f"Also {others}.\n\n" if others else "")
    return "".join(parts)


def _short(names: Iterable[str]) -> Iterable[str]:
    """These names, those that begin alike as one."""
    return dict.fromkeys("`--tls-…`" if name.startswith("`--tls-") else name for name in names)


def _java(name: str, settings: type[BrokerSettings | NamesrvSettings]) -> str:
    return (
        f"## {name}\n\n"
        + flags.of_java_program(name)
        + f"### Properties of {name}\n\n"
        + properties.of_program(settings)
    )


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
