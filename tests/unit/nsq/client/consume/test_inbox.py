"""What has come and nobody has taken."""

from __future__ import annotations

from penstock.nsq.client.consume.inbox import Inbox
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from tests.unit.nsq.client.consume.test_replies import Desk


def block(*messages: tuple[int, bytes]) -> MessageBlock:
    """Messages of these attempts and bodies."""
    reader = FrameReader()
    for number, (attempts, body) in enumerate(messages):
        reader.receive_data(frames.message(5, attempts, b"%016d" % number, body))
    (found,) = reader.events()
    assert isinstance(found, MessageBlock)
    return found


def rest(inbox: Inbox) -> list[bytes]:
    return [message.body for message in iter(inbox.message, None)]


def test_one_by_one_and_together() -> None:
    inbox, desk = Inbox(0), Desk()
    assert inbox.is_empty
    assert inbox.message() is None
    assert inbox.delivery() is None
    inbox.put(desk.replies, block((1, b"a"), (1, b"b")))
    inbox.put(desk.replies, block((1, b"c")))
    inbox.put(desk.replies, block((1, b"d"), (1, b"e")))
    first = inbox.message()
    assert first is not None
    assert first.body == b"a"
    assert not inbox.is_empty
    delivery = inbox.delivery()
    assert delivery is not None
    assert delivery.bodies() == [b"c"]
    assert rest(inbox) == [b"b", b"d", b"e"]
    assert inbox.is_empty


def test_a_single_message_leaves_nothing_open() -> None:
    inbox, desk = Inbox(0), Desk()
    inbox.put(desk.replies, block((1, b"a")))
    assert inbox.message() is not None
    assert inbox.is_empty


def test_spent_messages_are_put_aside() -> None:
    inbox, desk = Inbox(5), Desk()
    inbox.put(desk.replies, block((5, b"a"), (6, b"b"), (1, b"c"), (1, b"d"), (9, b"e")))
    inbox.put(desk.replies, block((6, b"f")))
    inbox.put(desk.replies, block((5, b"g")))
    assert [message.body for message in inbox.spent] == [b"b", b"e", b"f"]
    found = [one.bodies() for one in iter(inbox.delivery, None)]
    assert found == [[b"a"], [b"c", b"d"], [b"g"]]


def test_many_of_one_size() -> None:
    inbox, desk = Inbox(5), Desk()
    many = block(*((6 if number == 17 else 1, b"%03d" % number) for number in range(40)))
    assert many.stride
    inbox.put(desk.replies, many)
    assert [message.body for message in inbox.spent] == [b"017"]
    assert rest(inbox) == [b"%03d" % number for number in range(40) if number != 17]


def test_no_limit() -> None:
    inbox, desk = Inbox(0), Desk()
    inbox.put(desk.replies, block((65535, b"a")))
    assert rest(inbox) == [b"a"]


def test_what_a_lost_connection_brought_is_dropped() -> None:
    inbox, lost, kept = Inbox(5), Desk(), Desk()
    inbox.put(lost.replies, block((1, b"a"), (1, b"b")))
    inbox.put(kept.replies, block((1, b"c")))
    inbox.put(lost.replies, block((1, b"d")))
    inbox.put(lost.replies, block((6, b"e")))
    assert inbox.message() is not None
    lost.replies.close()
    inbox.discard(lost.replies)
    assert rest(inbox) == [b"c"]
    assert not inbox.spent


def test_giving_back() -> None:
    inbox, desk = Inbox(5), Desk(in_flight=5)
    inbox.put(desk.replies, block((1, b"a"), (1, b"b"), (1, b"c")))
    inbox.put(desk.replies, block((1, b"d"), (7, b"e")))
    assert inbox.message() is not None
    inbox.give_back()
    assert inbox.is_empty
    assert not inbox.spent
    sent = b"".join(desk.end_pass())
    assert sent.count(b"REQ ") == 4
    assert sent.count(b" 0\n") == 4
    assert desk.link.in_flight == 1
