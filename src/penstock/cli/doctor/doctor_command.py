"""``penstock doctor`` as a command: what it examines and prints, and its exit code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.text import Text

from penstock.cli.doctor.cluster import examine_cluster
from penstock.cli.doctor.config import examine_config
from penstock.cli.doctor.data_path import USED_MAX, examine_data_path
from penstock.cli.doctor.report import Finding, Level, Report
from penstock.cli.shared.data_paths import is_data_path
from penstock.cli.shared.dialects import register_dialects
from penstock.cli.shared.node_selection import NodeSelection
from penstock.cli.shared.pipes import quiet_pipe
from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.counted import counted
from penstock.core.errors import PenstockError, StorageError, UsageError
from penstock.core.redaction import without_secrets
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store

_STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "dim"}


class DoctorOptions(NamedTuple):
    """The things to examine; ``where`` is None if no node is to be asked.

    ``client_options`` are of the client that asks the name servers and their brokers.
    """

    data_paths: Sequence[Path] = ()
    configs: Sequence[Path] = ()
    where: NodeSelection | None = None
    quick: bool = False
    used_max: int = USED_MAX
    repair: bool = False
    accept_damage: bool = False
    name_servers: Sequence[str] = ()
    client_options: Sequence[str] = ()


def run_doctor(order: DoctorOptions, *, as_json: bool) -> None:
    """Examine, print and end with 1 if there is any fault. Raises PenstockError."""
    if (order.repair or order.accept_damage) and not order.data_paths:
        raise UsageError("--repair and --accept-damage need the --data-path that they are for")
    report = examined(order, SYSTEM_CLOCK)
    with quiet_pipe():
        if as_json:
            print(msgspec.json.encode(report).decode())
        else:
            print_report(report)
    if report.faults:
        sys.exit(1)


def examined(order: DoctorOptions, clock: Clock) -> Report:
    """All findings, the worst first. Raises PenstockError."""
    register_dialects()
    reports = [examine_config(file) for file in order.configs]
    if order.where is not None:
        asking = examine_cluster(order.where, clock, used_max=order.used_max)
        reports.append(asyncio.run(asking))
    if order.name_servers:
        from penstock.cli.doctor.name_servers import examine_name_servers  # half of nsqadmin

        examining = examine_name_servers(order.name_servers, order.client_options, clock)
        reports.append(asyncio.run(examining))
    for path in map(str, order.data_paths):
        if order.repair or order.accept_damage:
            repair_data_path(path, accept_damage=order.accept_damage)
        reports.append(
            examine_data_path(path, clock.wall_ns(), quick=order.quick, used_max=order.used_max)
        )
    order_of = list(Level).index
    findings = [_in_context(each, order) for report in reports for each in report.findings]
    return Report(
        sorted(findings, key=lambda each: order_of(each.level)),
        [without_secrets(each) for report in reports for each in report.checked],
    )


def _in_context(finding: Finding, order: DoctorOptions) -> Finding:
    """A lock is not a fault where the running node itself is asked as well; and no password of an
    address is told.
    """
    texts = {name: without_secrets(getattr(finding, name)) for name in ("where", "what", "remedy")}
    finding = msgspec.structs.replace(finding, **texts)
    if finding.code == "locked" and order.where is not None:
        return msgspec.structs.replace(finding, level=Level.NOTE)
    return finding


def print_report(report: Report) -> None:
    """Print findings with their remedies, what was examined, and the number of faults."""
    console = Console(highlight=False, soft_wrap=True)
    for each in report.findings:
        line = Text(f"{each.level.value:<8} ", style=_STYLES[each.level])
        console.print(line.append(f"{each.where}: {each.what}", style="default"))
        console.print(Text(f"{'':<8} {each.remedy}", style="dim"))
    for checked in report.checked:
        console.print(Text(f"examined {checked}", style="dim"))
    console.print(counted(len(report.faults), "fault") if report.faults else "no fault found")


def repair_data_path(path: str, *, accept_damage: bool) -> None:
    """Open each topic as a start does, which repairs what can be repaired, and close it.

    With ``accept_damage``, all damage counts as accepted afterwards. A folder that is not a data
    path is left alone: the examination says so. Raises PenstockError.
    """
    try:
        if not is_data_path(path):
            return
    except OSError:
        return
    try:
        store = Store(OsDisk(), path, LogOptions())
    except StorageError as error:
        raise PenstockError(f"{path} cannot be repaired: {error}") from error
    try:
        for topic, number in store.queues():
            log, journal, _ = store.open_queue(topic, number, 0)
            if accept_damage:
                log.damage.accept(log.start_offset)
            journal.close()
            log.close()
    except StorageError as error:
        raise PenstockError(f"{path} cannot be repaired: {error}") from error
    finally:
        store.close()
