"""nsqjs works with nsqd unchanged.

npm installs it into the virtual environment when the tests first run.
"""

from __future__ import annotations

from typing import Any

import pytest

from .nsq_play import MODES, Flow, check, outcomes_of

# For snappy it needs a compiler.
FLOWS = [("nsqjs", mode) for mode in (*MODES, "tls-deflate", "deflate")]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> dict[Flow, Any]:
    """Of all flows that are asked for, already run."""
    return outcomes_of(request.session.items, test_flow)


@pytest.mark.parametrize(("client", "mode"), FLOWS)
def test_flow(client: str, mode: str, outcomes: dict[Flow, Any]) -> None:
    check(client, mode, outcomes)
