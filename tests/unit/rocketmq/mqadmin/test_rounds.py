from __future__ import annotations

import pytest

from penstock.rocketmq.mqadmin import rounds
from penstock.rocketmq.mqadmin.output import Output


def test_rounds_go_on_until_they_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", pause)
    texts: list[str] = []
    out = Output(texts.append, as_json=True)
    with pytest.raises(KeyboardInterrupt):
        rounds.every(3, lambda: out.fact("round", len(pauses)), out)
    assert (pauses, len(texts)) == ([3, 3], 2)
