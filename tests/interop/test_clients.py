"""Third-party NSQ clients of Python, those of the extra `interop`, work with nsqd unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from .nsq_play import MODES, Flow, check, outcomes_of

CLIENTS = ("pynsq", "gnsq", "ansq")
# ansq has no TLS.
LAYERS = {"pynsq": ("tls-snappy", "tls-deflate", "deflate")}
FLOWS = [(client, mode) for client in CLIENTS for mode in (*MODES, *LAYERS.get(client, ()))]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> dict[Flow, Any]:
    """Of all flows that are asked for, already run."""
    return outcomes_of(request.session.items, test_flow)


@pytest.mark.parametrize(("client", "mode"), FLOWS)
def test_flow(client: str, mode: str, outcomes: dict[Flow, Any]) -> None:
    check(client, mode, outcomes)
