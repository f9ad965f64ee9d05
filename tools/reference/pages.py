"""The pages of docs/reference. `make pages` writes them, `test_pages.py` checks that it did."""

from __future__ import annotations

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

_FLAGS: Final = """## Flags

A flag wins over the configuration file (`--config`, TOML), the file over the default. A switch
may stand alone, meaning true. Durations are written as `500ms`, `10s`, `1m30s` or `2h`; sizes are
bytes.

"""
_HTTP: Final = """## HTTP

Parameters stand in the query, and bodies are JSON, unless the line says otherwise. One with `?` may
be left out.

"""
_SHORT: Final = """## Flags

Short forms are those of Java: `-c`, `-p`, `-h`; of mqbroker also `-n` and `-m`.

"""
_PROPERTIES: Final = """## Properties

Of the file of `-c`, under Java's names; times are milliseconds and sizes bytes, unless the line
says otherwise."""
_START: Final = """ *start*: read at the start only; `mqadmin updateBrokerConfig` changes the
others."""
_MONITORING: Final = """## HTTP

On the port of `monitoringAddress`.

"""


def files() -> dict[Path, str]:
    """Every page with what it should have."""
    pages = {
        **{name: _daemon(name, known) for name, known in endpoints.DAEMONS.items()},
        "tools": _tools(),
        "penstock": _penstock(),
        "mqbroker": _java("mqbroker", BrokerSettings, _START),
        "mqnamesrv": _java("mqnamesrv", NamesrvSettings),
    }
    return {FOLDER / f"{name}.md": f"{text.rstrip()}\n" for name, text in pages.items()}


def _head(title: str, guide: str) -> str:
    """The title, and where the subject is explained."""
    return (
        f"# {title}\n\n{guide} explains it. This page is written by `make pages`, from what "
        "the program itself declares.\n\n"
    )


def _daemon(name: str, known: Endpoints) -> str:
    head = _head(f"{name}: flags and endpoints", f"The page [{name}](../{name}.md)")
    return head + _FLAGS + flags.of_daemon(DAEMONS[name]) + _HTTP + _endpoints(known)


def _endpoints(known: Endpoints) -> str:
    rows = [[code(route), takes, does] for route, (takes, does) in known.items()]
    return table(["request", "takes", ""], rows)


def _tools() -> str:
    tools: dict[str, type[Flags]] = {n: f for n, f in nsq_programs().items() if n not in DAEMONS}
    parts = [f"## {name}\n\n{flags.of_tool(each)}" for name, each in tools.items()]
    return _head("NSQ's tools: flags", "[The tools of NSQ](../tools.md)") + "".join(parts)


def _penstock() -> str:
    parts = [f"## {words}\n\n{flags.of_command(each)}" for words, each in flags.commands()]
    return _head("penstock: commands", "[The penstock command](../cli.md)") + "".join(parts)


def _java(name: str, settings: type[BrokerSettings | NamesrvSettings], more: str = "") -> str:
    title = f"{name}: flags, properties and endpoints"
    return (
        _head(title, "[RocketMQ's broker and name server](../rocketmq.md)")
        + _SHORT
        + flags.of_java_program(name)
        + f"{_PROPERTIES}{more}\n\n"
        + properties.of_program(settings)
        + _MONITORING
        + _endpoints(endpoints.VITALS)
    )


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
