"""The campaign of three machines that nobody looks after, in its short form."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.debian import needed

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root cuts network namespaces"),
    pytest.mark.timeout(300),
]


def test_a_primary_that_is_gone_is_followed_and_nothing_is_lost() -> None:
    for program, package in (("etcd", "etcd-server"), ("ip", "iproute2")):
        needed(program, package)
    words = [sys.executable, "-m", "tools.campaigns", "unattended", "3",
             "--kinds=killed,cut,copy behind"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| holds |" in done.stdout
