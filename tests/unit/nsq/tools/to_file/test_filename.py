"""The names of nsq_to_file's files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from penstock.nsq.tools.to_file.filename import Filenames, host_name, strftime, with_revision

WHEN = datetime(2026, 11, 21, 1, 16, 29, tzinfo=timezone(timedelta(hours=-3, minutes=-30), "XYZ"))


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("%Y %y %m %d", "2026 26 11 21"),
        ("%H %I %M %S %p", "01 01 16 29 AM"),
        ("%B %b %A %a", "November Nov Saturday Sat"),
        ("%Z %z", "XYZ -0330"),
        ("%% %%Y", "% %Y"),
        ("%j %e %q x%", "%j %e %q x%"),
        ("2006 _2 Jan 1 PM 15:04", "2006 _2 Jan 1 PM 15:04"),
        ("", ""),
    ],
)
def test_strftime_knows_these_directives_and_no_other(layout: str, text: str) -> None:
    assert strftime(layout, WHEN) == text


def test_the_afternoon_has_hours_to_twelve() -> None:
    assert strftime("%H %I %p", WHEN.replace(hour=12)) == "12 12 PM"
    assert strftime("%H %I %p", WHEN.replace(hour=0)) == "00 12 AM"
    assert strftime("%H %I %p", WHEN.replace(hour=15)) == "15 03 PM"


def test_revisions_have_six_digits_at_least() -> None:
    assert with_revision("a<REV>.log", 0) == "a-000000.log"
    assert with_revision("<REV>a<REV>", 1_234_567) == "-1234567a-1234567"
    assert with_revision("a.log", 3) == "a.log"


@pytest.mark.parametrize(
    ("identifier", "host"),
    [
        ("", "node"),
        ("x", "x"),
        ("id-<SHORT_HOST>-<HOSTNAME>-<SHORT_HOST>", "id-node-node.example.org-node"),
    ],
)
def test_host_names(identifier: str, host: str) -> None:
    assert host_name(identifier, "node.example.org") == host


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_all_tokens_in_local_time() -> None:
    names = Filenames(
        "<TOPIC>/<HOST>.<PID><REV>.<DATETIME>-<DATETIME>.<OTHER>",
        "%H%z",
        topic="t",
        host="h",
        pid=42,
        suffix=".gz",
    )
    assert names.at(0) == "t/h.42<REV>.09+0900-09+0900.<OTHER>.gz"
    assert names.at(3599) == names.at(0)
    assert names.at(3600) == "t/h.42<REV>.10+0900-10+0900.<OTHER>.gz"
    assert names.at(0) == "t/h.42<REV>.09+0900-09+0900.<OTHER>.gz"


@pytest.mark.parametrize(("layout", "name"), [("a.gz", "a.gz"), ("a.log", "a.log.gz")])
def test_the_suffix_is_not_doubled(layout: str, name: str) -> None:
    assert Filenames(layout, "", topic="t", host="h", pid=1, suffix=".gz").at(0) == name


@pytest.mark.parametrize(("topic", "name"), [(".", "%2E/h"), ("..", "%2E%2E/h"), ("...", ".../h")])
def test_a_topic_is_no_way_out_of_the_folder(topic: str, name: str) -> None:
    names = Filenames("<TOPIC>/<HOST>", "", topic=topic, host="h", pid=1, suffix="")
    assert names.at(0) == name
