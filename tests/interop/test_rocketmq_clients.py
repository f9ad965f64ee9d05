"""RocketMQ's C++ client, that of the extra `interop`, works with our servers unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from .rocketmq_play import check, outcomes_of

MODES = (
    "broker", "namesrv", "retry", "send", "orderly", "filter", "pull", "share", "resume",
    "create",
)  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Any]:
    """Of all flows that are asked for, already run."""
    home = tmp_path_factory.mktemp("rocketmq")
    return outcomes_of(request.session.items, test_flow, home)


@pytest.mark.parametrize(("client", "mode"), [("cpp", mode) for mode in MODES])
def test_flow(client: str, mode: str, outcomes: dict[tuple[str, str], Any]) -> None:
    check(client, mode, outcomes)
