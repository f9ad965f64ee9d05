"""What clients say of popped messages, and bodies that a broker decompresses for others."""

from __future__ import annotations

import struct
import zlib

from penstock.core.errors import PenstockError
from penstock.rocketmq.broker.pop.request_mode_table import RequestModes
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.bodies import body_of, decompressed
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, encode
from penstock.rocketmq.protocol.pop_info import BITS_MAX, BatchAck, Receipt

from . import Target

BODY_MAX = 1000
ERROR_MAX = 1000


def _refused(error: PenstockError) -> None:
    assert 0 < len(str(error)) < ERROR_MAX


def receipts(data: bytes) -> None:
    """An extra info: three numbers are read of it."""
    try:
        receipt = Receipt.parse(data.decode("utf-8", "replace"))
    except BodyError as error:
        _refused(error)
        return
    words = ("0", str(receipt.pop_ms), str(receipt.invisible_ms), str(receipt.revive_queue))
    assert Receipt.parse(" ".join(words)) == receipt


def acknowledgements(data: bytes) -> None:
    """An entry of a batch: as many messages as bits, one behind the other."""
    try:
        ack = BatchAck.parse(fastjson.loads(data))
    except BodyError as error:
        _refused(error)
        return
    assert len(ack.offsets) <= BITS_MAX
    assert ack.offsets == sorted(set(ack.offsets))


def request_modes(data: bytes) -> None:
    """The table of modes: what is read is written the same."""
    modes = RequestModes()
    try:
        modes.load(fastjson.loads(data))
    except BodyError as error:
        _refused(error)
        return
    again = RequestModes()
    again.load(fastjson.loads(fastjson.dumps(modes.as_json())))
    assert again.as_json() == modes.as_json()


def bodies(data: bytes) -> None:
    """A frame that may be no stored message: what is given of it has its bounds."""
    body, sys_flag = body_of(data)
    assert len(body) <= len(data)
    opened = decompressed(body, sys_flag, BODY_MAX)
    assert opened == body or len(opened) <= BODY_MAX


_HOST = Host(bytes(4), 1)
_PACKED = zlib.compress(b"text " * 100)
_ENTRY = b'{"c":"G","t":"T","r":"0","so":40,"q":2,"rq":0,"pt":1700,"it":60000,"b":"BQE="}'
_MODES = (
    b'{"messageRequestModeMap":{"T":{"G":{"consumerGroup":"G","mode":"POP","popShareQueueNum":2,'
    b'"topic":"T"}}}}'
)

TARGETS = {
    "rocketmq_receipts": Target(
        receipts,
        [b"5 1700 60000 0 0 broker-a 3 7", b"0 0 0 999 1 b 0"],
        [b" ", b"-1", b"9" * 30, b"9" * 5000, "²".encode(), b"_"],
    ),
    "rocketmq_acknowledgements": Target(
        acknowledgements,
        [_ENTRY, _ENTRY.replace(b'"b":', b'"bitSet":')],
        [b'"so":', b"-1", b"9" * 30, b"null", b"true", b'"b":"////"', b"=" * 3, b"A" * 100_000],
    ),
    "rocketmq_request_modes": Target(
        request_modes, [_MODES], [b"null", b"[]", b"{}", b'"PULL"', b'"mode":', b'""', b"1.5"]
    ),
    "rocketmq_bodies": Target(
        bodies,
        [
            encode(StoredMessage("t", _PACKED, 0, 0, 0, _HOST, _HOST, 1, 1, sys_flag=flag))
            for flag in (0, 1, 0x301, 0x201)
        ],
        [struct.pack(">i", number) for number in (-1, 0, 1, 0x31, 2**31 - 1)],
    ),
}  # fmt: skip
