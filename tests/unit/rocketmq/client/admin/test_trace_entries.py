from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.trace_entries import AFTER, BEFORE, ENDED, SENT, Entry, entries
from penstock.rocketmq.client.produce.trace import entry


def test_entries_of_all_kinds() -> None:
    body = (
        entry("Pub", 5, "R", "shop", "T", "U1", "", "", "h", 4, 12, 0, "OFFSET", True, "h")
        + entry("SubBefore", 6, "R", "billing", "r", "U1", 2, "k")
        + entry("SubAfter", "r", "U1", 7, False, "k", 0, 8, "billing")
        + entry("EndTransaction", 9, "R", "shop", "T", "U1", "", "", "h", 2, "tx", "UNKNOW", False)
    )
    assert entries(body.encode()) == [
        Entry(SENT, "U1", "shop", 5, 12, True, "h"),
        Entry(BEFORE, "U1", "billing", 6, request_id="r", retries=2),
        Entry(AFTER, "U1", "billing", 8, 7, False, request_id="r"),
        Entry(ENDED, "U1", "shop", 9, store_host="h", state="UNKNOW"),
    ]


def test_old_clients_tell_less() -> None:
    sent = entry("Pub", 5, "R", "shop", "T", "U1", "", "", "h", 4, 12, 0, False)
    after = entry("SubAfter", "r", "U1", 7, True, "k")
    first, second = entries((sent + after).encode())
    assert not first.is_ok
    assert (second.group, second.time_ms) == ("", 0)


@pytest.mark.parametrize("body", [b"", b"\xff\x02", b"Pub\x01\x02", b"SubAfter\x01r\x01U\x01x\x02"])
def test_what_makes_no_sense_is_left_out(body: bytes) -> None:
    assert entries(body) == []


def test_an_entry_of_a_batch_is_about_each_of_its_messages() -> None:
    batch = Entry(SENT, "U1,U2")
    assert batch.is_about("U1")
    assert not batch.is_about("U")
