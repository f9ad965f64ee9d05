"""Ctrl-C in a terminal where a panel is drawn."""

from __future__ import annotations

import signal
import termios
from pathlib import Path

from tools.harness.terminals import screen


def test_ctrl_c_leaves_one_panel_and_the_terminal_as_it_was(tmp_path: Path) -> None:
    command = ("up", "--no-spark", "--free-ports", f"--data-path={tmp_path / 'up'}")
    with screen(*command, columns=80, lines=40) as shown:
        shown.until(lambda text: text.count(" ready ") == 3)
        during = shown.modes()[3]
        assert isinstance(during, int)
        assert not during & termios.ECHO
        shown.type("\x03")  # no signal, as the terminal controls no process here
        shown.process.send_signal(signal.SIGINT)
        assert shown.ended() == 0
        text = shown.text()
        assert (text.count("╭"), text.count("╰")) == (1, 1), text
        assert "^C" not in text
        assert shown.modes() == shown.before
