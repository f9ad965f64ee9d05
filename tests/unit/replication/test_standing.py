"""Roles and epochs, and the file that holds them."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError, LaterFormatError
from penstock.replication.standing import (
    FILE_NAME,
    Role,
    Standing,
    only_here,
    read_standing,
    write_standing,
)
from penstock.testing.disk import FaultyDisk


def test_a_data_path_that_was_never_copied_has_no_standing() -> None:
    assert read_standing(FaultyDisk("/data"), "/data") is None


def test_what_was_written_is_read_also_after_a_power_cut() -> None:
    disk = FaultyDisk("/data")
    standing = Standing("h", 3, Role.FOLLOWER, "a:4151", fork={"t": (7, 2)})
    write_standing(disk, "/data", standing)
    disk.crash("written")
    assert read_standing(disk, "/data") == standing


def test_a_damaged_file_is_an_error_as_its_epoch_must_not_be_guessed() -> None:
    disk = FaultyDisk("/data")
    disk.replace_file(f"/data/{FILE_NAME}", b'{"epoch": -1}')
    with pytest.raises(ConfigError, match="is damaged"):
        read_standing(disk, "/data")
    disk.replace_file(f"/data/{FILE_NAME}", b'{"version": 2}')
    with pytest.raises(LaterFormatError):
        read_standing(disk, "/data")


def test_each_promotion_begins_an_epoch_above_all_that_the_node_has_heard_of() -> None:
    standing = Standing("h", 1)
    standing.follow("a:1")
    assert standing.role is Role.FOLLOWER
    standing.was_whole = True
    standing.follow("c:1")
    assert standing.was_whole, "it copies the same under another address"
    standing.promote({"t": (7, 2)})
    assert (standing.role, standing.epoch, standing.owes_fence) == (Role.PRIMARY, 2, True)
    assert not standing.is_other_s(2, "b:1"), "it has stepped back for nobody"
    standing.fence(5, "b:1", {"t": (7, 3)})
    assert standing.is_other_s(4, "b:1")
    assert standing.is_other_s(5, "c:1")
    assert not standing.is_other_s(5, "b:1")
    assert not standing.is_other_s(6, "c:1")
    assert (standing.role, standing.epoch, standing.primary) == (Role.FENCED, 2, "b:1")
    standing.follow("b:1")
    assert not standing.is_settled, "what only it has is to be put aside"
    assert not standing.was_whole, "it has compared nothing yet"
    standing.promote({})
    assert standing.epoch == 6


def test_messages_only_here_are_those_behind_the_fork_and_all_of_logs_that_it_does_not_name() -> (
    None
):
    fork = {"t": (7, 10), "u": (8, 5), "w": (9, 5)}
    ends = {"t": (7, 12), "u": (8, 5), "v": (3, 4), "w": (10, 2), "x": (11, 0)}
    assert only_here(fork, ends) == {"t": 2, "v": 4, "w": 2}
