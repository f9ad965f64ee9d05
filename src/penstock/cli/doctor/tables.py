"""The tables of a RocketMQ broker in a data path: topics, groups, committed offsets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from penstock.cli.doctor.report import Finding, error, warning
from penstock.rocketmq.broker.store import seal
from penstock.rocketmq.broker.store.state import BACKUP
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.files.disk import Disk

_FOLDER: Final = "config"


def examine_tables(disk: Disk, data_path: str) -> Iterator[Finding]:
    """Read each table as a start would, with its previous content where there is any."""
    directory = os.path.join(data_path, _FOLDER)
    for name in disk.list(directory):
        path = os.path.join(directory, name)
        if not name.endswith(".json"):
            continue
        if _is_readable(disk.read_file(path)):
            if seal.is_broken(disk.read_file(path) or b""):
                yield warning("table", path, "it is not as the broker wrote it",
                              f"A start takes its previous content from {name}{BACKUP} if that is "
                              "as it was written. If you have edited it, delete its member "
                              f"{seal.MEMBER}.")  # fmt: skip
        elif _is_readable(disk.read_file(path + BACKUP)):
            yield warning("table", path, "it is damaged", "A start takes its previous content from "
                          f"{name}{BACKUP}; changes after that are lost.")  # fmt: skip
        else:
            yield error("table", path, f"it is damaged, and so is {name}{BACKUP}, or it is missing",
                        "The broker does not start. Put back a good copy of one, or delete both "
                        "to begin without their content.")  # fmt: skip


def _is_readable(data: bytes | None) -> bool:
    try:
        fastjson.loads(data or b"")
    except BodyError:
        return False
    return True
