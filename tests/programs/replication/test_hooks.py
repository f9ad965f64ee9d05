"""The operator's commands around a promotion, as processes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from penstock.core.units import MILLISECOND
from penstock.node.ports import Ports
from penstock.replication.hooks import LINES_MAX, HookError, Hooks
from penstock.replication.standing import Role, Standing
from tests.programs.nsq.nsqd.conftest import options

STANDING = Standing("h", 1, Role.FOLLOWER, "a:4151")


def hooks(before: str = "", after: str = "", timeout_ms: int = 30_000) -> Hooks:
    chosen = options(
        "/data", promote_before_hook=before, promote_after_hook=after,
        promote_hook_timeout=timeout_ms * MILLISECOND, broadcast_address="b",
        broadcast_tcp_port=4150, broadcast_http_port=4151,
    )  # fmt: skip
    return Hooks(chosen, Ports(chosen))


async def test_without_a_hook_nothing_is_asked() -> None:
    assert await hooks().before(STANDING, 2, {}) == 2


async def test_a_hook_gets_what_it_needs_and_may_demand_a_higher_epoch(tmp_path: Path) -> None:
    told = tmp_path / "told"
    before = f"env | grep ^PENSTOCK_ >{told}; echo epoch=4; echo epoch=7"
    assert await hooks(before).before(STANDING, 2, {"PENSTOCK_WHOLE": "true"}) == 7
    found = dict(line.split("=", 1) for line in told.read_text().splitlines())
    assert found == found | {
        "PENSTOCK_EPOCH": "2", "PENSTOCK_HISTORY": "h", "PENSTOCK_NODE": "b",
        "PENSTOCK_ADDRESS": "b:4151", "PENSTOCK_TCP_ADDRESS": "b:4150",
        "PENSTOCK_OLD_PRIMARY": "a:4151", "PENSTOCK_DATA_PATH": "/data", "PENSTOCK_WHOLE": "true",
    }  # fmt: skip
    assert await hooks("echo epoch=1").before(STANDING, 2, {}) == 2, "never a lower one"


@pytest.mark.parametrize(
    ("command", "timeout_ms", "reason"),
    [
        ("echo first; echo b holds it >&2; exit 3", 30_000, "exit code 3: b holds it$"),
        ("exit 1", 30_000, "exit code 1$"),
        ("sleep 600 & sleep 600", 100, "did not end within 0.1 s, and was killed"),
        ("exec /nowhere/hook 2>/dev/null", 30_000, "exit code 127"),
    ],
)
async def test_a_hook_that_fails_or_hangs_refuses(
    command: str, timeout_ms: int, reason: str
) -> None:
    with pytest.raises(HookError, match=f"^--promote-before-hook .*{reason}"):
        await hooks(command, timeout_ms=timeout_ms).before(STANDING, 2, {})


async def test_a_hook_that_says_too_much_ends_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    assert await hooks("yes | head -c 300000").before(STANDING, 2, {}) == 2
    assert len(caplog.records) == LINES_MAX


async def test_the_hook_after_a_promotion_can_only_be_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await hooks(after="echo no address; exit 2").after(STANDING)
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == [
        "this node is primary in epoch 1, but --promote-after-hook ended with exit code 2: "
        "no address"
    ]
