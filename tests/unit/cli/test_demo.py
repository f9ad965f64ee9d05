"""``penstock demo`` when Ctrl-C comes at the worst moment."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from penstock.cli.demo import _Demo
from penstock.cli.live.display import Board, open_display


class InterruptedOutput(io.StringIO):
    """An output during whose first flush Ctrl-C comes."""

    is_interrupted = False

    def flush(self) -> None:
        if not self.is_interrupted:
            self.is_interrupted = True
            raise KeyboardInterrupt


def test_ctrl_c_as_soon_as_it_is_offered_stops_the_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board("demo")
    demo = _Demo(tmp_path, 0, 1, board, open_display(board))
    output = InterruptedOutput()
    monkeypatch.setattr(sys, "stdout", output)
    try:
        demo.stay()
    except KeyboardInterrupt:  # which would end the test run
        pytest.fail("the interrupt came through")
    assert output.getvalue().splitlines()[-1] == "stopping the services"
