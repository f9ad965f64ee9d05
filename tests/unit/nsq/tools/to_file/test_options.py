"""nsq_to_file's flags: the order of the checks and their words (NSQ spec 6.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.units import HOUR, MINUTE, SECOND
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.to_file.options import parse_options
from penstock.nsq.tools.to_file.rotation import Rotation

NSQD = "--nsqd-tcp-address=127.0.0.1:4150"
LOOKUPD = "--lookupd-http-address=127.0.0.1:4161"
TOPIC = "--topic=t"


def test_defaults() -> None:
    flags = parse_options([TOPIC, NSQD])
    assert flags.channel == "nsq_to_file"
    assert flags.max_in_flight == 200
    assert flags.output_dir == flags.work_dir == "/tmp"
    assert flags.sync_interval == 30 * SECOND
    assert flags.topic_refresh == MINUTE
    assert flags.layout == "<TOPIC>.<HOST>.<DATETIME>.log"
    assert flags.suffix == ""
    assert not flags.exclusive


# Each line has the mistakes of those after it too, so that it shows which comes first.
MISTAKES = [
    ("unknown arguments: [foo bar]", ["foo", "bar"]),
    ("--log-level is invalid", ["--log-level=loud"]),
    ("--channel is required", ["--channel="]),
    ("--http-client-connect-timeout should be positive", ["--http-client-connect-timeout=0s"]),
    ("--http-client-request-timeout should be positive", ["--http-client-request-timeout=-1s"]),
    ("--nsqd-tcp-address or --lookupd-http-address required.", []),
]
MORE_MISTAKES = [
    ("use --nsqd-tcp-address or --lookupd-http-address not both", [LOOKUPD]),
    ("invalid --gzip-level value (10), should be 1-9", ["--gzip-level=10"]),
    ("--topic or --topic-pattern required", []),
]


@pytest.mark.parametrize("mistakes", [MISTAKES, MORE_MISTAKES])
def test_checks_come_in_gos_order(mistakes: list[tuple[str, list[str]]]) -> None:
    always = [] if mistakes is MISTAKES else [NSQD]
    for index, (text, _) in enumerate(mistakes):
        given = [flag for _, flags in reversed(mistakes[index:]) for flag in flags]
        with pytest.raises(ToolError) as caught:
            parse_options([*always, *given])
        assert str(caught.value) == text


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--topic-pattern=.", NSQD], "--lookupd-http-address must be specified when no --topic"),
        ([TOPIC, NSQD, "--gzip-level=0"], "invalid --gzip-level value (0), should be 1-9"),
        ([TOPIC, NSQD, "--max-in-flight=0"], "--max-in-flight should be positive"),
        ([TOPIC, NSQD, "--sync-interval=0s"], "--sync-interval should be positive"),
        (["--topic-pattern=.", LOOKUPD, "--topic-refresh=0s"], "--topic-refresh should be"),
        ([TOPIC, NSQD, "--channel=bad!"], "invalid channel name"),
        (["--topic-pattern=(", LOOKUPD], 'invalid --topic-pattern "("'),
        ([TOPIC, NSQD, "--gzip", "--filename-format=x"], "missing <REV> in --filename-format"),
        ([TOPIC, NSQD, "--rotate-size=1", "--filename-format=x"], "missing <REV>"),
        ([TOPIC, NSQD, "--rotate-interval=1s", "--filename-format=x"], "missing <REV>"),
        ([TOPIC, NSQD, "--work-dir=/w", "--filename-format=x"], "missing <REV>"),
    ],
)
def test_what_cannot_work_is_refused_at_once(flags: list[str], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_options(flags)
    assert str(caught.value).startswith(text)
    assert caught.value.code == 1


def test_the_version_comes_after_two_checks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse_options(["--version", "--channel=", "--gzip-level=99"])
    assert left.value.code == 0
    assert capsys.readouterr().out == "nsq_to_file v1.3.0\n"
    with pytest.raises(ToolError, match="unknown arguments"):
        parse_options(["--version", "foo"])
    with pytest.raises(ToolError, match="--log-level is invalid"):
        parse_options(["--version", "--log-level=loud"])


@pytest.mark.parametrize(
    "flags",
    [["--nosuch"], ["--gzip-level=x"], ["--reader-opt=nosuch,1"], ["--consumer-opt=nosuch,1"]],
)
def test_wrong_flags_leave_with_2(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse_options(flags)
    assert left.value.code == 2
    assert "Usage of " in capsys.readouterr().err


def test_the_same_directory_in_other_words_is_no_work_directory(tmp_path: Path) -> None:
    flags = parse_options([TOPIC, NSQD, f"--output-dir={tmp_path}", f"--work-dir={tmp_path}/x/../"])
    assert not flags.moves
    assert not flags.has_revisions
    assert parse_options(
        [TOPIC, NSQD, f"--output-dir={tmp_path}", f"--work-dir={tmp_path}/x"]
    ).moves


def test_what_follows_from_the_options() -> None:
    flags = parse_options([TOPIC, NSQD, "--gzip", "--rotate-size=5", "--rotate-interval=1h"])
    assert flags.rotation == Rotation(5, HOUR)
    assert flags.exclusive
    assert flags.layout == "<TOPIC>.<HOST><REV>.<DATETIME>.log"
    assert flags.suffix == ".gz"
    assert not parse_options([TOPIC, NSQD, "--rotate-size=5"]).exclusive
