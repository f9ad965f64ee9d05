"""What an operator writes about who may do what: a file in YAML, patterns of addresses."""

from __future__ import annotations

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import ConfigError
from penstock.rocketmq.broker.acl.address_patterns import AddressPattern
from penstock.rocketmq.broker.acl.files import AclFiles
from penstock.testing.disk import FaultyDisk

from . import Target

ERROR_MAX = 1000
NEW = {"accessKey": "newcomer", "secretKey": "secret-key"}


def _check(error: ConfigError) -> None:
    text = str(error)
    assert 0 < len(text) < ERROR_MAX
    assert "\n" not in text


def access_rules(data: bytes) -> None:
    """The file: refused with a reason, or rules to which an account can be added."""
    disk = FaultyDisk("/")
    disk.make_directory("/conf")
    files = AclFiles(disk, "/conf", SYSTEM_CLOCK)
    disk.replace_file(files.main, data)
    try:
        rules = files.rules(files.contents())
    except ConfigError as error:
        _check(error)
        return
    files.put_account(NEW)
    changed = files.rules(files.contents())
    assert set(changed.accounts) == {*rules.accounts, "newcomer"}
    assert len(changed.trusted) == len(rules.trusted)


def address_patterns(data: bytes) -> None:
    """A pattern, and behind a zero byte an address."""
    text, _, address = data.decode("utf-8", "replace").partition("\0")
    try:
        pattern = AddressPattern(text)
    except ConfigError as error:
        _check(error)
        return
    matches = pattern.matches(address)
    assert matches or text != "*"


TARGETS = {
    "access_rules": Target(
        access_rules,
        [
            b"globalWhiteRemoteAddresses:\n- 10.0.0.*\naccounts:\n- accessKey: RocketMQ\n"
            b"  secretKey: 12345678\n  admin: true\n  topicPerms:\n  - t=PUB|SUB\n",
            b"{accounts: [{accessKey: RocketMQ, secretKey: '12345678', groupPerms: [g=SUB]}], "
            b"dataVersion: [{counter: 1, timestamp: 5}]}",
            b"",
            b"accounts:\n",
        ],
        [b"\n- ", b": ", b"&a ", b"*a", b"[", b"{", b"!!", b"<<", b"|", b"=DENY", b"? ", b"---\n"],
    ),
    "address_patterns": Target(
        address_patterns,
        [b"10.0.0.*\x0010.0.0.5", b"10.0.0.{1,2}\x0010.0.0.2", b"1:2::3-9:*\x001:2::4:5", b"*\0@"],
        [b"*", b"-", b"::", b"{", b"}", b",", b"255", b"ffff", "\u0661".encode(), b"1_0", b"%"],
    ),
}
