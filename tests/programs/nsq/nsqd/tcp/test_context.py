from __future__ import annotations

import pytest

from penstock.core.settings.tls_kinds import TlsRequired
from tests.programs.nsq.nsqd.conftest import Start


@pytest.mark.parametrize(("address", "required"), [("", False), ("127.0.0.1:1", True)])
async def test_features_follow_from_the_options(start: Start, address: str, required: bool) -> None:
    addresses = (address,) if address else ()
    context = (await start(auth_http_addresses=addresses, snappy=False)).nsqd.context
    assert context.features.auth_required is required
    assert not context.features.snappy
    assert not context.features.tls_v1
    assert context.options.tls_needed is TlsRequired.NO
    assert not context.tls_required
