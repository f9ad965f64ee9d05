"""An nsqadmin over two nodes, by fixtures that stay below `tests/unit`."""

from __future__ import annotations

import pytest

from tests.unit.admin.conftest import Running, StartAdmin, Two, admin, fake, http, two

__all__ = ["admin", "fake", "http", "two"]


@pytest.fixture
async def running(two: Two, admin: StartAdmin) -> Running:
    """An nsqadmin over two scripted nodes, which only alice may change."""
    return await admin(lookupd_http_addresses=(two.lookupd.address,), admin_users=("alice",))


@pytest.fixture
async def remembering(two: Two, admin: StartAdmin) -> Running:
    """One with a history, which has looked once."""
    started = await admin(lookupd_http_addresses=(two.lookupd.address,), history_interval=10**12)
    assert started.admin.poller is not None
    await started.admin.poller.refresh()
    return started
