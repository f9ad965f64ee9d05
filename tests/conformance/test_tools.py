"""The recorded runs of NSQ's tools, replayed against ours.

Every one holds, or is a deliberate difference with its reason here. `PENSTOCK_TOOLS=DIR` replays
the programs of a directory instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.harness.samples import RECORDINGS, load
from tools.replay.replay_tools import Stage, replay_tools, stage, tool_of
from tools.replay.tool_process import PROGRAMS

SAMPLES = RECORDINGS / "tools.jsonl"

DIFFERENCES: dict[str, tuple[str, ...]] = {
    "--version, and a daemon's log, say Penstock's own version behind NSQ's.": (
        "nsq_stat version",
        "nsq_tail version",
        "nsq_tail -version one dash",
        "nsq_to_file version",
        "nsq_to_http version",
        "nsq_to_nsq version",
        "nsqd version",
        "nsqlookupd version",
        "nsqlookupd port in use",
        "nsqlookupd http port in use",
    ),
    "to_nsq has a --version as the others do.": ("to_nsq version",),
    "to_nsq keeps the last byte of a last record without delimiter.": (
        "to_nsq last line without newline",
        "to_nsq single byte without newline",
    ),
    "An address given twice is one producer from the start, and so has number 1.": (
        "to_nsq same address twice",
    ),
    "Names and addresses that cannot be right are refused before a connection is tried.": (
        "to_nsq bad topic",
        "nsq_tail nsqd address without port",
    ),
    "nsq_stat names the topic that no node has, where Go's text ends after its colon.": (
        "nsq_stat unknown topic (nsqd)",
    ),
    "An unreachable nsqlookupd is logged in fewer words than Go's HTTP client uses.": (
        "nsq_tail dead lookupd",
    ),
    "A topic that nsqlookupd does not know yet is not an error, and logged as none.": (
        "nsq_tail lookupd unknown topic",
    ),
    "Why a handshake failed is said with the node's address and in full.": (
        "go-nsq auth required without secret",
        "go-nsq upgrade not OK (snappy)",
    ),
    "nsq_to_file's usage names nsq_to_file.": (
        "nsq_to_file unknown flag",
        "nsq_to_file gzip-level x",
        "nsq_to_file gzip-compression removed",
    ),
    "--reader-opt is taken, as in the manual's chapter AUTH, and its names are looked at.": (
        "nsq_to_file reader-opt removed",
    ),
    "nsq_to_file refuses a wrong --consumer-opt as the other tools do.": (
        "nsq_to_file consumer-opt nosuch,1",
        "nsq_to_file consumer-opt max_attempts,x",
        "nsq_to_file consumer-opt max_attempts",
        "nsq_to_file consumer-opt heartbeat_interval,zz",
    ),
    "nsq_to_file that has no topic to write, and will have none, ends with code 1.": (
        "nsq_to_file bad topic",
        "nsq_to_file bad channel",
        "nsq_to_file topic with pattern not matching",
        "nsq_to_file consumer dead nsqd",
    ),
    "nsq_to_file refuses at the start what can never work: no <REV>, no pattern.": (
        "nsq_to_file gzip without REV",
        "nsq_to_file rotate-size without REV",
        "nsq_to_file work-dir without REV",
        "nsq_to_file topic-pattern invalid",
    ),
    "nsq_to_http refuses at the start an address to which no message could be sent.": (
        "nsq_to_http url without scheme",
        "nsq_to_http bad url",
    ),
    "Only %-words of --datetime-format are replaced, not what Go's layouts replace.": (
        "nsq_to_file datetime-format 2006",
        "nsq_to_file datetime-format _2",
        "nsq_to_file datetime-format Jan",
        "nsq_to_file datetime-format 1",
        "nsq_to_file datetime-format PM",
    ),
    "nsq_to_file goes on after HUP with a work directory.": (
        "nsq_to_file HUP with work-dir (upstream bug)",
    ),
    "nsqlookupd says why it cannot listen without Go's formatting slip.": (
        "nsqlookupd port in use",
        "nsqlookupd http port in use",
    ),
}
BY_NAME = {name: text for text, names in DIFFERENCES.items() for name in names}


GROUPS = (
    ("nsq_stat", "to_nsq", "nsqd", "nsqlookupd"),
    ("nsq_tail",),
    ("nsq_to_nsq",),
    ("nsq_to_http",),
    ("nsq_to_file",),
)


@pytest.fixture(scope="module")
def place() -> Iterator[Stage]:
    with stage() as made:
        yield made


@pytest.mark.skipif(bool(PROGRAMS), reason="the differences are those of our tools")
@pytest.mark.parametrize("tools", GROUPS, ids=" ".join)
def test_every_run_holds_or_differs_on_purpose(tools: tuple[str, ...], place: Stage) -> None:
    report = replay_tools(SAMPLES, tools, place, BY_NAME)
    unknown = {name: miss for name, miss in report.misses.items() if name not in BY_NAME}
    assert not unknown, "\n".join(f"- {name}\n{miss}" for name, miss in unknown.items())
    no_longer = sorted(set(report.held) & BY_NAME.keys())
    assert not no_longer, f"listed as different, and hold: {no_longer}"


def test_all_runs_are_played() -> None:
    cases = load(SAMPLES)
    assert {tool_of(case) for case in cases} == {tool for group in GROUPS for tool in group}
    assert BY_NAME.keys() <= {case["name"] for case in cases}
