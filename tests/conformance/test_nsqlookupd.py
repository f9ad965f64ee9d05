"""nsqlookupd answers as the real one was recorded to answer, case by case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.harness.samples import load
from tools.replay import replay_lookupd
from tools.replay.replay_lookupd import (
    DIFFERENCES,
    HTTP_FILE,
    TCP_FILE,
    Outcomes,
    replay_http,
    replay_tcp,
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folder: Path = metafunc.config.getoption("--samples")
    for fixture, file in (("tcp_case", TCP_FILE), ("http_case", HTTP_FILE)):
        if fixture in metafunc.fixturenames:
            names = [case["name"] for case in load(folder / file)]
            metafunc.parametrize(fixture, names)


@pytest.fixture(scope="module")
def tcp_outcomes(samples_dir: Path) -> Outcomes:
    return replay_tcp(samples_dir / TCP_FILE)


@pytest.fixture(scope="module")
def http_outcomes(samples_dir: Path) -> Outcomes:
    return replay_http(samples_dir / HTTP_FILE)


def test_tcp_exchange_holds(tcp_case: str, tcp_outcomes: Outcomes) -> None:
    check(tcp_case, tcp_outcomes)


def test_http_exchange_holds(http_case: str, http_outcomes: Outcomes) -> None:
    check(http_case, http_outcomes)


def check(name: str, outcomes: Outcomes) -> None:
    """A case holds, or differs for a reason that is written down and still true."""
    problem = outcomes[name]
    if name not in DIFFERENCES:
        assert problem == ""
        return
    assert problem != "", "this case holds: take it out of DIFFERENCES"
    pytest.xfail(f"on purpose: {DIFFERENCES[name]}")


def test_listed_differences_and_actions_are_samples(samples_dir: Path) -> None:
    names = {case["name"] for file in (TCP_FILE, HTTP_FILE) for case in load(samples_dir / file)}
    assert names >= DIFFERENCES.keys()
    assert names >= replay_lookupd.BEFORE.keys()
