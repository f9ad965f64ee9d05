"""Roles and epochs, who is told, the secret between nodes, and the metrics of each role."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from penstock.core.errors import ConfigError, LaterFormatError
from penstock.net.http.server.v1_api import ApiError
from penstock.replication import successor
from penstock.replication.metrics import ReplicationMetrics
from penstock.replication.peer import Fence, Peer, PeerError
from penstock.replication.secret import Secret
from penstock.replication.state import (
    FILE_NAME,
    ReplicationState,
    Role,
    only_here,
    read_state,
    write_state,
)
from penstock.testing.disk import FaultyDisk


def test_a_data_path_that_was_never_copied_has_no_standing() -> None:
    assert read_state(FaultyDisk("/data"), "/data") is None


def test_what_was_written_is_read_also_after_a_power_cut() -> None:
    disk = FaultyDisk("/data")
    state = ReplicationState("h", 3, Role.FOLLOWER, "a:4151", fork={"t": (7, 2)})
    write_state(disk, "/data", state)
    disk.crash("written")
    assert read_state(disk, "/data") == state


def test_a_damaged_file_is_an_error_as_its_epoch_must_not_be_guessed() -> None:
    disk = FaultyDisk("/data")
    disk.replace_file(f"/data/{FILE_NAME}", b'{"epoch": -1}')
    with pytest.raises(ConfigError, match="is damaged"):
        read_state(disk, "/data")
    disk.replace_file(f"/data/{FILE_NAME}", b'{"version": 2}')
    with pytest.raises(LaterFormatError):
        read_state(disk, "/data")


def test_each_promotion_begins_an_epoch_above_all_that_the_node_has_heard_of() -> None:
    state = ReplicationState("h", 1)
    state.follow("a:1")
    assert state.role is Role.FOLLOWER
    state.was_whole = True
    state.follow("c:1")
    assert state.was_whole, "it copies the same under another address"
    state.promote({"t": (7, 2)})
    assert (state.role, state.epoch, state.owes_fence) == (Role.PRIMARY, 2, True)
    assert not state.is_other_s(2, "b:1"), "it has stepped back for nobody"
    state.fence(5, "b:1", {"t": (7, 3)})
    assert state.is_other_s(4, "b:1")
    assert state.is_other_s(5, "c:1")
    assert not state.is_other_s(5, "b:1")
    assert not state.is_other_s(6, "c:1")
    assert (state.role, state.epoch, state.primary) == (Role.FENCED, 2, "b:1")
    state.follow("b:1")
    assert not state.is_settled, "what only it has is to be put aside"
    assert not state.was_whole, "it has compared nothing yet"
    state.promote({})
    assert state.epoch == 6


def test_messages_only_here_are_those_behind_the_fork_and_all_of_logs_that_it_does_not_name() -> (
    None
):
    fork = {"t": (7, 10), "u": (8, 5), "w": (9, 5)}
    ends = {"t": (7, 12), "u": (8, 5), "v": (3, 4), "w": (10, 2), "x": (11, 0)}
    assert only_here(fork, ends) == {"t": 2, "v": 4, "w": 2}


# --- How a promoted node tells the primary before, until it has heard ----------------------------


FENCE = Fence("h", 2, "b:1", {"t": (7, 2)})


class Other:
    """A node whose answers are given."""

    def __init__(self, *errors: PeerError | None) -> None:
        self.errors = list(errors)
        self.told: list[Fence] = []

    async def post(self, target: str, body: bytes, seconds: float) -> bytes:
        assert target == "/replication/fence"
        self.told.append(msgspec.json.decode(body, type=Fence))
        if (error := self.errors.pop(0)) is not None:
            raise error
        return b"{}"


def peer(*errors: PeerError | None) -> Any:
    return cast(Peer, Other(*errors))


async def test_it_is_told_again_while_it_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(successor, "TELL_S", 0.0)
    heard: list[bool] = []
    other = peer(PeerError("away"), PeerError("refuses", "503"), None)
    await successor.tell_until_heard(other, FENCE, lambda: heard.append(True))
    assert other.told == [FENCE] * 3
    assert heard == [True]


async def test_a_node_of_another_history_is_told_once() -> None:
    heard: list[bool] = []
    other = peer(PeerError("refuses", "OTHER_HISTORY"))
    await successor.tell_until_heard(other, FENCE, lambda: heard.append(True))
    assert heard == [True]


async def test_a_refusal_is_an_error_and_silence_is_none() -> None:
    assert not await successor.tell(peer(PeerError("away")), FENCE)
    with pytest.raises(PeerError):
        await successor.tell(peer(PeerError("refuses", "LOWER_EPOCH")), FENCE)


def test_messages_are_shown_by_topic_the_most_first() -> None:
    assert successor.shown({"a": 1, "b": 5}) == "5 of b, 1 of a"
    many = successor.shown({f"t{number}": number + 1 for number in range(12)})
    assert many.endswith("3 of t2 and of 2 more topics")


# --- The secret between nodes: what a file may hold, and who is let in ---------------------------


def request(**headers: bytes) -> Any:
    return SimpleNamespace(headers={name.encode(): value for name, value in headers.items()})


def test_without_a_secret_everybody_is_let_in() -> None:
    Secret.of("").check(request())
    assert Secret.of("").headers == {}


def test_with_a_secret_only_those_who_have_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("  correct-horse-battery\n")
    secret = Secret.of(str(tmp_path / "secret"))
    [header] = secret.headers.values()
    secret.check(request(authorization=header.encode()))
    for given in (request(), request(authorization=b"Bearer correct-horse-batter")):
        with pytest.raises(ApiError, match="REPLICATION_SECRET_REQUIRED"):
            secret.check(given)


@pytest.mark.parametrize("content", [b"", b"too short", b"two words of some length", b"\xff" * 20])
def test_a_file_without_a_usable_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match="--replication-secret-file"):
        Secret.of(str(tmp_path / "secret"))
    with pytest.raises(ConfigError, match="No such file"):
        Secret.of(str(tmp_path / "nothing"))


# --- The metrics of each role --------------------------------------------------------------------


async def page(figures: dict[str, Any] | None) -> str:
    return "".join([each.text() async for each in ReplicationMetrics(lambda: figures).source()])


async def test_a_node_that_was_never_copied_has_none() -> None:
    assert await page(None) == ""


async def test_a_primary_shows_its_followers() -> None:
    follower = {"address": "b:1", "lag_messages": 3, "lag_bytes": 400, "asked_seconds_ago": 0.25}
    text = await page({"role": Role.PRIMARY, "epoch": 2, "followers": [follower]})
    assert "\nnsqd_replication_primary 1\n" in text
    assert "\nnsqd_replication_epoch 2\n" in text
    assert '\nnsqd_follower_lag_messages{follower="b:1"} 3\n' in text
    assert '\nnsqd_follower_lag_bytes{follower="b:1"} 400\n' in text
    assert '\nnsqd_follower_asked_seconds{follower="b:1"} 0.25\n' in text
    assert "nsqd_replication_lag" not in text
    assert "nsqd_replicas" not in text


async def test_a_primary_whose_oks_wait_shows_how_many_it_promises() -> None:
    text = await page({"role": Role.PRIMARY, "epoch": 0, "followers": [], "replicas_acked": 2,
                       "replicas_in_force": 0, "messages_waiting": 7})  # fmt: skip
    assert "\nnsqd_replicas_acked 2\n" in text
    assert "\nnsqd_replicas_in_force 0\n" in text
    assert "\nnsqd_replicas_messages_waiting 7\n" in text


async def test_a_follower_shows_its_lag_which_is_no_number_before_it_was_whole() -> None:
    figures = {"role": Role.FOLLOWER, "epoch": 1, "error": "away", "lag_messages": 5,
               "lag_bytes": 600, "lag_seconds": None}  # fmt: skip
    text = await page(figures)
    assert "\nnsqd_replication_primary 0\n" in text
    assert "\nnsqd_replication_following 0\n" in text
    assert "\nnsqd_replication_lag_messages 5\n" in text
    assert "\nnsqd_replication_lag_seconds NaN\n" in text
