"""ali-ons works with our broker and name server unchanged.

npm installs it into the virtual environment when the tests first run.
"""

from __future__ import annotations

from typing import Any

import pytest

from .rocketmq_play import check, outcomes_of

MODES = (
    "broker", "namesrv", "retry", "send", "filter", "sql", "share", "resume", "refused",
)  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Any]:
    """Of all flows that are asked for, already run."""
    home = tmp_path_factory.mktemp("rocketmq")
    return outcomes_of(request.session.items, test_flow, home)


@pytest.mark.parametrize(("client", "mode"), [("ali-ons", mode) for mode in MODES])
def test_flow(client: str, mode: str, outcomes: dict[tuple[str, str], Any]) -> None:
    check(client, mode, outcomes)
