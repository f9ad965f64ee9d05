"""A configuration file under the doctor's eyes: NSQ's TOML, or RocketMQ's properties."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any, Final

from penstock.admin.admin_options import AdminOptions, checked
from penstock.cli.doctor.data_path import is_directory
from penstock.cli.doctor.report import Finding, Report, error, warning
from penstock.cli.shared.rocketmq_port import rocketmq_settings
from penstock.core.errors import ConfigError
from penstock.core.nearest import did_you_mean
from penstock.core.reasons import reason, system_words
from penstock.core.redaction import without_secrets
from penstock.core.settings import java_properties
from penstock.core.settings.options import Option, Options
from penstock.core.units import format_duration
from penstock.net.address import split_host_port
from penstock.node.ports import server_tls
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions
from penstock.replication.secret import Secret
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings

_OF_NSQ: Final[dict[str, type[Options]]] = {
    "nsqd": NsqdOptions,
    "nsqlookupd": LookupdOptions,
    "nsqadmin": AdminOptions,
}
_LISTENS: Final = ("tcp_address", "http_address", "https_address")
_OF_ROCKETMQ: Final[dict[str, type[BrokerSettings | NamesrvSettings]]] = {
    "mqbroker": BrokerSettings,
    "mqnamesrv": NamesrvSettings,
}


def _keys(options: type[Options]) -> dict[str, Option]:
    return {each.key: each for each in options.declared.values()}


_NAMES_OF_NSQ: Final = {name: _keys(each).keys() for name, each in _OF_NSQ.items()}
_NAMES_OF_ROCKETMQ: Final = {name: each.declared().keys() for name, each in _OF_ROCKETMQ.items()}


def examine_config(file: Path) -> Report:
    """Look at a file; it is of the program that knows most of its keys."""
    try:
        text = file.read_text(encoding="utf-8")
        table = tomllib.loads(text.removeprefix("\ufeff")) if _is_toml(file, text) else None
    except (OSError, ValueError, RecursionError) as problem:
        said = reason(problem) if isinstance(problem, OSError) else str(problem)
        remedy = "The program does not start with it. Correct it, or name the right file."
        return Report([error("config", str(file), said, remedy)], [f"configuration {file}"])
    if table is None:
        program, found = _properties(str(file), text)
        return Report(found, [f"configuration {file} of {program}"])
    program, _ = _best(table.keys(), _NAMES_OF_NSQ)
    found = list(_table(str(file), program, table))
    return Report(found, [f"configuration {file} of {program}"])


def _is_toml(file: Path, text: str) -> bool:
    """True for a file of NSQ's, by the names in it: nsqd.cfg is what Go's are usually called."""
    if file.suffix == ".toml":
        return True
    try:
        names = java_properties.loads(text).keys()
    except ConfigError:
        return False
    return _best(names, _NAMES_OF_NSQ)[1] > _best(names, _NAMES_OF_ROCKETMQ)[1]


def _best(names: Set[str], known: Mapping[str, Set[str]]) -> tuple[str, int]:
    """The program that knows most of these names, and how many."""
    program = max(known, key=lambda each: len(names & known[each]))
    return program, len(names & known[program])


def _unknown(where: str, key: str, known: dict[str, Any]) -> Finding:
    what = f"the key {key} is unknown and has no effect{did_you_mean(key, known)}"
    remedy = "Correct it: until then the default counts. Keys stand at the top of the file."
    return warning("config-key", where, what, remedy)


def _table(where: str, program: str, table: dict[str, Any]) -> Iterator[Finding]:
    """Look at NSQ's keys one by one, then at what they are together."""
    known = _keys(_OF_NSQ[program])
    values, wrong = {}, False
    for key, value in table.items():
        if key not in known:
            yield _unknown(where, key, known)
            continue
        try:
            values[known[key].name] = known[key].kind.from_config(value)
        except ValueError as problem:
            wrong = True
            remedy = f"{program} does not start with it. `penstock help flags` shows the forms."
            what = without_secrets(f"{key} = {value!r}: {problem}")
            yield error("config-value", where, what, remedy)
    if wrong:
        return
    options = _OF_NSQ[program](**values)
    for said in _refusals(options):
        yield error("config-value", where, said, f"{program} does not start with it.")
    if isinstance(options, NsqdOptions):
        yield from _nsqd(where, options)


def _refusals(options: Options) -> Iterator[str]:
    """Say what a start says that refuses the values together; flags may add nodes to nsqadmin's."""
    for name in _LISTENS:
        address = getattr(options, name, "")
        try:
            if address and "/" not in address:
                split_host_port(address)
        except ValueError as problem:
            yield f"{name}: {problem}"
    try:
        if isinstance(options, NsqdOptions):
            options.check()
            server_tls(options)
            Secret.of(options.replication_secret_file)
            if options.rocketmq_address:
                settings = rocketmq_settings(options)
                settings.check()
                settings.check_tls()
        elif isinstance(options, AdminOptions) and options.has_nodes:
            checked(options)
    except ConfigError as problem:
        yield str(problem)


def _nsqd(where: str, options: NsqdOptions) -> Iterator[Finding]:
    if options.msg_timeout > options.max_msg_timeout:
        yield warning(
            "time-outs",
            where,
            f"msg_timeout is {format_duration(options.msg_timeout)}, "
            f"max_msg_timeout {format_duration(options.max_msg_timeout)}",
            "A consumer that asks for nothing gets more time than one may ask for: raise "
            "max_msg_timeout.",
        )
    if options.data_path:
        yield from _data_path(where, options.data_path)


def _data_path(where: str, path: str) -> Iterator[Finding]:
    try:
        is_there = is_directory(path)
    except OSError as problem:
        yield warning(
            "unreadable",
            where,
            f"data_path {path} cannot be reached: {system_words(problem)}",
            "Run this as the user that nsqd runs as.",
        )
        return
    if not is_there:
        yield error(
            "no-data-path",
            where,
            f"data_path {path} is not a directory",
            f"nsqd makes none: mkdir -p {shlex.quote(path)}",
        )


def _properties(where: str, text: str) -> tuple[str, list[Finding]]:
    """The program that knows most of the names, and what is wrong with them."""
    try:
        names = java_properties.loads(text).keys()
    except ConfigError as problem:
        return "mqbroker", [error("config-value", where, str(problem), "Correct the escape.")]
    program, _ = _best(names, _NAMES_OF_ROCKETMQ)
    return program, list(_of_rocketmq(where, text, program))


def _of_rocketmq(where: str, text: str, program: str) -> Iterator[Finding]:
    try:
        settings, unknown = _OF_ROCKETMQ[program].load(text)
        warnings = settings.check() if isinstance(settings, BrokerSettings) else []
        settings.check_tls()
    except ConfigError as problem:
        yield error("config-value", where, str(problem), f"{program} does not start with it.")
        return
    for name in unknown:
        yield _unknown(where, name, settings.declared())
    for said in warnings:
        yield warning("config-value", where, said, "Set it so that the file says what is done.")
