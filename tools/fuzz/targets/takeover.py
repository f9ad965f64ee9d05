"""What a Go nsqd has left in its data path: queue files, their meta files, nsqd.dat."""

from __future__ import annotations

import struct
from collections import Counter

from penstock.core.errors import ConfigError, PenstockError, StorageError
from penstock.nsq.takeover.data_file import LENGTH_BYTES, MESSAGE_MIN
from penstock.nsq.takeover.diskqueue import find_queues, missing, parse_meta, pieces
from penstock.nsq.takeover.reader import QueueReader
from penstock.testing.disk import FaultyDisk
from tools.harness.go_files import (
    DATA,
    MESSAGE_MAX,
    Message,
    data,
    delivered,
    disk_with,
    messages,
    nsqd_dat,
    queue,
    take_over,
)

from . import Target

_CUT = b"\n----\n"
_RECORD_MAX = MESSAGE_MIN + MESSAGE_MAX
_HEAD = struct.Struct(">qH16s")
_TOPIC, _CHANNEL = "t", "t:c"
_FILES = [
    "nsqd.dat",
    f"{_TOPIC}.diskqueue.meta.dat",
    f"{_TOPIC}.diskqueue.000000.dat",
    f"{_CHANNEL}.diskqueue.meta.dat",
    f"{_CHANNEL}.diskqueue.000000.dat",
    f"{_CHANNEL}.diskqueue.000001.dat",
    f"{_TOPIC}:d.diskqueue.000003.dat",
]
"""The files of one input, parted by ``_CUT``; an empty part is no file."""


def names(found: bytes) -> None:
    """Names of a directory: those of queues are told apart, and made again as they were."""
    listed = set(found.decode("utf-8", "surrogateescape").split("\0"))
    for files in find_queues(listed):
        assert set(files.names()) <= listed
        assert files.numbers == sorted(set(files.numbers))


def meta(found: bytes) -> None:
    """A meta file: what Go's Fscanf would read in it, or nothing."""
    read = parse_meta(found)
    if read is None:
        return
    assert read[1] <= read[3]
    depth, *places = read
    text = "{}\n{},{}\n{},{}\n".format(depth, *places)
    assert parse_meta(text.encode()) == read


def queue_files(found: bytes) -> None:
    """A queue's files, read in chunks of two sizes: the same whole records, and no others."""
    disk = _disk(found)
    for files in find_queues(disk.list(DATA)):
        expected = _records(disk, files.name)
        for nbytes in (64, 5000):
            reader = QueueReader(disk, DATA, files, MESSAGE_MAX)
            read: list[bytes] = []
            try:
                for some in reader.chunks(nbytes):
                    assert len(some.buffer) <= max(nbytes, LENGTH_BYTES + _RECORD_MAX)
                    read += [
                        some.buffer[start : start + size]
                        for start, size in zip(some.starts, some.sizes, strict=True)
                    ]
            except ConfigError:  # behind these is a message that is larger than we take
                assert read == expected[: len(read)]
            else:
                assert read == expected
            missing(files, reader.meta)


def taking_over(found: bytes) -> None:
    """All is imported that a plain loop can read of the files, or nothing is touched.

    What waited in a topic's queue has not been delivered, whatever its attempts say.
    """
    disk = _disk(found)
    before = {path: disk.content(path) for path in disk.paths()}
    try:
        count = take_over(disk)
    except StorageError:
        raise  # this disk has no faults
    except PenstockError as error:
        assert "\n" not in str(error)
        assert {path: disk.content(path) for path in disk.paths()} == before
        return
    queued = {name: _queued(before, name) for name in (_TOPIC, _CHANNEL, f"{_TOPIC}:d")}
    assert count == sum(map(len, queued.values()))
    assert take_over(disk) == 0
    if not any(".diskqueue." in path for path in before):
        return  # nobody has looked into nsqd.dat
    waited = [each._replace(attempts=1) for each in queued[_TOPIC]]
    got = delivered(disk).get(_TOPIC, {})
    for channel, come in got.items():
        own = queued.get(f"{_TOPIC}:{channel}", [])
        assert Counter(come) == Counter([*map(_delivered, own), *waited]), channel
    for name, waiting in queued.items():
        assert not waiting or name == _TOPIC or name.partition(":")[2] in got


def _delivered(queued: Message) -> Message:
    """Attempts are 16 bits and wrap, as with Go."""
    return queued._replace(attempts=(queued.attempts + 1) & 0xFFFF)


def _disk(found: bytes) -> FaultyDisk:
    parts = found.split(_CUT)
    return disk_with({name: part for name, part in zip(_FILES, parts, strict=False) if part})


def _records(disk: FaultyDisk, name: str) -> list[bytes]:
    return _read({path: disk.content(path) for path in disk.paths()}, name)


def _queued(content: dict[str, bytes], name: str) -> list[Message]:
    found = []
    for record in _read(content, name):
        timestamp, attempts, _ = _HEAD.unpack_from(record, LENGTH_BYTES)
        found.append(Message(timestamp, attempts, record[LENGTH_BYTES + MESSAGE_MIN :]))
    return found


def _read(content: dict[str, bytes], name: str) -> list[bytes]:
    """The records of a queue, by a loop that knows nothing of chunks."""
    by_name = {path.removeprefix(f"{DATA}/"): held for path, held in content.items()}
    found: list[bytes] = []
    for files in find_queues(by_name):
        if files.name != name:
            continue
        known = parse_meta(by_name[files.meta_name]) if files.has_meta else None
        for number, start in pieces(files, known):
            found += _whole(by_name[files.data_name(number)], start)
    return found


def _whole(held: bytes, at: int) -> list[bytes]:
    found = []
    while at + LENGTH_BYTES <= len(held):
        end = at + LENGTH_BYTES + struct.unpack_from(">i", held, at)[0]
        if not MESSAGE_MIN <= end - at - LENGTH_BYTES <= _RECORD_MAX or end > len(held):
            break
        found.append(held[at:end])
        at = end
    return found


def _input(*contents: dict[str, bytes]) -> bytes:
    held = {name: part for content in contents for name, part in content.items()}
    return _CUT.join(held.get(name, b"") for name in _FILES)


_SOME = messages(range(5))
_MIXED = messages([7], 2) + messages([3], 0xFFFE, size=40) + messages([9])
_DATA_PATHS = [
    _input(nsqd_dat({"t": ["c", "idle"]}, paused=["t"]), queue("t", _SOME),
           queue("t:c", _SOME, _MIXED)),
    _input(queue("t:c", _SOME, _SOME, read=(0, len(data(_SOME[:2])))), queue("t", [])),
    _input({f"{_TOPIC}:d.diskqueue.000003.dat": data(_SOME),
            f"{_TOPIC}.diskqueue.000000.dat": data(_MIXED) + data(_SOME)[:-3]}),
    _input(queue("t:c", _MIXED, messages([1], size=MESSAGE_MAX + 1))),
]  # fmt: skip
_LENGTHS = [struct.pack(">i", size) for size in (0, 25, 26, _RECORD_MAX, _RECORD_MAX + 1, -1)]
_WORDS = [_CUT, *_LENGTHS, b"0,0\n", b"-1", b"9" * 19, b'"name":', b"null", b"[]", b"t.bad"]

TARGETS = {
    "diskqueue_names": Target(
        names,
        [b"\0".join(name.encode() for name in _FILES), b"a#ephemeral.diskqueue.meta.dat",
         b"t.diskqueue.1000000.dat\0t.diskqueue.0999999.dat\0t;c.diskqueue.000001.dat"],
        [b".diskqueue.", b".dat", b"meta", b"000000", b"\0", b":", b";", b"\n"],
    ),
    "diskqueue_meta": Target(
        meta,
        [b"5\n0,0\n1,170\n", b"-3\n7,10\n7,10\n", b" 1 2,3 4,5"],
        [b",", b"\n", b"-", b"9" * 19, b"0" * 20],
    ),
    "diskqueue_files": Target(queue_files, _DATA_PATHS, _WORDS),
    "takeover": Target(taking_over, _DATA_PATHS, _WORDS),
}  # fmt: skip
