from __future__ import annotations

import pytest

from penstock.rocketmq.mqadmin import rounds
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.output import Output
from tests.unit.rocketmq.mqadmin.fake_admin import FakeAdmin


def test_rounds_go_on_until_they_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(admin: Admin, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    async def work() -> None:
        out.fact("round", len(pauses))

    monkeypatch.setattr(rounds, "pause", pause)
    texts: list[str] = []
    out = Output(texts.append, as_json=True)
    admin = FakeAdmin()
    with pytest.raises(KeyboardInterrupt):
        admin.do(rounds.every(admin, 3, work, out))
    assert (pauses, len(texts)) == ([3, 3], 2)
