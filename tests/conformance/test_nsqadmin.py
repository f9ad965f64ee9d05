"""nsqadmin answers as the real one was recorded to answer, case by case.

Every case holds, or is a deliberate difference with its reason here. `PENSTOCK_NSQADMIN=PROGRAM`
replays another nsqadmin, and then the differences do not count.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.harness.samples import load
from tools.replay.admin_scenes import BEFORE
from tools.replay.replay_admin import FILE, Outcomes, replay

DIFFERENCES: dict[str, tuple[str, ...]] = {
    "--version and the log say Penstock's own version behind NSQ's.": (
        "startup: version",
        "startup: port in use",
    ),
    "A topic that nsqlookupd knows and no node has is an empty topic, not an error.": (
        "topic without producers",
        "unreachable node: topic afterwards",
    ),
    "A topic that no node has is not found, without nsqlookupds as well.": (
        "nsqd mode: topic unknown",
        "upstream requests, nsqd mode: channel",
    ),
    "A channel that no node has is not found, which is not an internal error.": (
        "channel unknown",
        "nsqd mode: channel unknown",
        "upstream requests, lookupd mode: channel",
    ),
    "A node's object is the node's own, never the sum over all nodes.": (
        "topic",
        "topic with client",
        "topic paused",
        "e2e topic",
    ),
    "A node that tells no e2e_processing_latency is shown without, where Go's dies.": (
        "upstream requests, lookupd mode: topic",
        "upstream requests, nsqd mode: topic",
    ),
    "Without nsqlookupds topics and channels are created on the nodes.": (
        "nsqd mode: create with channel",
        "nsqd mode: create channel on existing topic",
        "upstream requests, nsqd mode: create topic",
        "upstream requests, nsqd mode: create channel",
    ),
    "Graphite without a number is N/A.": ("graphite null", "graphite empty", "graphite nodp"),
    "A --graphite-url that browsers could not ask either is warned of without a proxy.": (
        "startup: bad graphite url not checked without proxy",
    ),
    "The usage has our flags and our words.": (
        "startup: bad flag",
        "startup: bad log level",
        "startup: bad duration",
        "startup: help",
    ),
    "A word that is not a flag is warned of, as all flags behind it have no effect.": (
        "startup: positional argument ignored",
    ),
}
BY_NAME = {name: text for text, names in DIFFERENCES.items() for name in names}
IS_OURS = "PENSTOCK_NSQADMIN" not in os.environ


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        folder: Path = metafunc.config.getoption("--samples")
        metafunc.parametrize("case", [case["name"] for case in load(folder / FILE)])


@pytest.fixture(scope="module")
def outcomes(samples_dir: Path) -> Outcomes:
    return replay(samples_dir / FILE)


def test_exchange_holds(case: str, outcomes: Outcomes) -> None:
    problem = outcomes[case]
    if case not in BY_NAME or not IS_OURS:
        assert problem == ""
        return
    assert problem != "", "this case holds: take it out of DIFFERENCES"
    pytest.xfail(f"on purpose: {BY_NAME[case]}")


def test_listed_differences_and_actions_are_samples(samples_dir: Path) -> None:
    names = {case["name"] for case in load(samples_dir / FILE)}
    assert names >= BY_NAME.keys()
    assert names >= BEFORE.keys()
