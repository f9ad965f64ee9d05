from __future__ import annotations

import re

from penstock.core.settings.version import NSQ_VERSION, version_line


def test_the_version_is_one_that_clients_can_compare() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", NSQ_VERSION)


def test_version_line() -> None:
    assert re.fullmatch(r"nsqd v1\.3\.0 \(built w/python[^\s)]+\)", version_line("nsqd"))
