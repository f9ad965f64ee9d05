"""Access rules: patterns of addresses, permissions, accounts, and their files."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigError, DiskFullError
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.acl import files as module
from penstock.rocketmq.broker.acl.address_patterns import AddressPattern
from penstock.rocketmq.broker.acl.files import AclFiles
from penstock.rocketmq.broker.acl.rules import Account, Permission, Rules
from penstock.rocketmq.broker.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, TRACE_TOPIC
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk

from .test_check import PATH, RULES

PUB, SUB, DENY = Permission.PUB, Permission.SUB, Permission.DENY


PATTERNS: dict[str, tuple[str, str]] = {
    "*": ("1.2.3.4 @", ""),
    "*.*.*.*": ("1.2.3.4", ""),
    "*:*:*:*:*:*:*:*": ("::1", ""),
    "": ("", "1.2.3.4"),
    "  ": ("", "1.2.3.4"),
    "1.2.3.4": ("1.2.3.4", "1.2.3.40 no-address ::102:304"),
    " 1.2.3.4 ": ("1.2.3.4", ""),
    "10.10.103.*": ("10.10.103.0 10.10.103.255", "10.10.10.3"),
    "10.10.1-9.*": ("10.10.9.7", "10.10.10.7"),
    "10.10.1.5-7": ("10.10.1.6", "10.10.1.8"),
    "10.0.0.{1,2, 30}": ("10.0.0.30", "10.0.0.3"),
    "10.0.0.1,10.0.1.*": ("10.0.1.9", "10.0.0.2"),
    "::1": ("::1 0:0:0:0:0:0:0:1", "::2"),
    "1:2::*": ("1:2::abcd", "1:3::abcd"),
    "1:2:3:4:5:6:7:10-1F": ("1:2:3:4:5:6:7:1a", "1:2:3:4:5:6:7:20"),
    "1:2:3:4:5:6:7:{8,9}": ("1:2:3:4:5:6:7:9", ""),
}
"""The addresses that a pattern matches, and some that it does not."""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_of_addresses(pattern: str) -> None:
    matching, others = (addresses.split() for addresses in PATTERNS[pattern])
    read = AddressPattern(pattern)
    assert [each for each in (*matching, *others) if read.matches(each)] == matching


@pytest.mark.parametrize(
    "pattern",
    ["1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.9-5", "1.2.3.-5", "a.b.c.d", "1.2.3.{4", "{1,2}",
     "1.2.3.x{4}", "1:2:3", "1:2:3:4:5:6:7:fffff", "localhost", "1.2.3.4/8"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        AddressPattern(pattern)


KEYS = {"accessKey": "RocketMQ", "secretKey": "12345678"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("DENY", DENY), ("PUB", PUB), (" SUB ", SUB), ("PUB|SUB", PUB | SUB), ("SUB | PUB", PUB | SUB),
     *((text, None) for text in ("", "pub", "ANY", "PUB,SUB", "PUB|"))],
)  # fmt: skip
def test_permissions(text: str, wanted: Permission | None) -> None:
    if wanted is not None:
        assert Permission.parse(text) == wanted
        return
    with pytest.raises(ConfigError, match="is not a permission; there are DENY, PUB, SUB"):
        Permission.parse(text)


def test_an_account_that_says_nothing_may_do_nothing() -> None:
    account = Account.parse(KEYS)
    assert not account.is_admin
    assert account.default_topic == account.default_group == DENY
    assert not account.trusted.matches("127.0.0.1")
    assert "12345678" not in repr(account)


def test_an_account_in_full() -> None:
    account = Account.parse({
        **KEYS, "whiteRemoteAddress": "10.0.0.*", "admin": "true", "defaultTopicPerm": "DENY",
        "defaultGroupPerm": "SUB", "topicPerms": ["topicA=DENY", "topicB=PUB|SUB"],
        "groupPerms": [" groupC = SUB "],
    })  # fmt: skip
    assert account.is_admin
    assert account.default_group == SUB
    assert account.permissions == {"topicA": DENY, "topicB": PUB | SUB, "%RETRY%groupC": SUB}
    assert account.trusted.matches("10.0.0.7")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"accessKey": "short"}, "accessKey and secretKey must be there"),
        ({"secretKey": "secret"}, "accessKey and secretKey must be there"),
        ({"secretKey": None}, "accessKey and secretKey must be there"),
        ({"secretKey": ["a"]}, "secretKey must be a single value"),
        ({"topicPerms": "topicA=PUB"}, "account 'RocketMQ': topicPerms must be a list"),
        ({"topicPerms": ["topicA"]}, "'topicA' is not of the form name=permission"),
        ({"groupPerms": ["=PUB"]}, "'=PUB' is not of the form name=permission"),
        ({"groupPerms": ["g=ALL"]}, "'ALL' is not a permission"),
        ({"whiteRemoteAddress": "nowhere"}, "'nowhere' is not an address"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Account.parse({**KEYS, **change})
    assert "12345678" not in str(caught.value)


def test_rules_of_several_files() -> None:
    rules = Rules()
    assert rules.add(None) == []
    assert rules.add({"globalWhiteRemoteAddresses": ["10.0.0.*", None], "accounts": [KEYS]}) == []
    other = {"accessKey": "another", "secretKey": "87654321"}
    again = {**KEYS, "admin": "true"}
    assert rules.add({"accounts": [other, again]}) == ["RocketMQ"]
    assert list(rules.accounts) == ["RocketMQ", "another"]
    assert not rules.accounts["RocketMQ"].is_admin
    assert len(rules.trusted) == 1
    assert [rules.trusts(address) for address in ("10.0.0.7", "10.0.1.7")] == [True, False]


@pytest.mark.parametrize(
    "value",
    ["text", ["list"], {"accounts": {"a": 1}}, {"accounts": ["text"]},
     {"globalWhiteRemoteAddresses": "10.0.0.1"}, {"accounts": [{}]}],
)  # fmt: skip
def test_files_without_sense_change_nothing(value: Any) -> None:
    rules = Rules()
    with pytest.raises(ConfigError):
        rules.add(value)
    assert rules == Rules()


def test_what_an_account_may() -> None:
    account = Account.parse(
        {**KEYS, "defaultTopicPerm": "SUB", "topicPerms": ["a=PUB", f"{HALF_TOPIC}=SUB"],
         "groupPerms": ["g=SUB"]}
    )  # fmt: skip
    assert [account.may("a", each) for each in (PUB, SUB, PUB | SUB)] == [True, False, True]
    assert [account.may("other", each) for each in (PUB, SUB, PUB | SUB)] == [False, True, True]
    assert [account.may(f"%RETRY%{group}", SUB) for group in "gh"] == [True, False]
    assert account.may(TRACE_TOPIC, PUB)


def test_no_default_opens_where_messages_of_others_wait() -> None:
    every = {**KEYS, "defaultTopicPerm": "PUB|SUB", "topicPerms": [f"{HALF_TOPIC}=SUB"]}
    account = Account.parse(every)
    assert account.may(HALF_TOPIC, SUB)
    assert not account.may(SCHEDULE_TOPIC, SUB)
    assert not account.may(TIMER_TOPIC, PUB)


# --- files ----------------------------------------------------------------------------------------


MORE = "/conf/acl/more.yml"
NEW = {"accessKey": "newcomer", "secretKey": "secret-key", "defaultTopicPerm": "PUB"}


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk("/")
    disk.make_directory("/conf/acl")
    disk.replace_file(PATH, RULES)
    disk.replace_file(MORE, b"accounts:\n- accessKey: '0123456'\n  secretKey: 0123456\n")
    disk.replace_file("/conf/acl/notes.txt", b"[")
    return disk


@pytest.fixture
def files(disk: FaultyDisk, clock: FakeClock) -> AclFiles:
    return AclFiles(disk, "/conf", clock)


def written(disk: FaultyDisk, path: str = PATH) -> Any:
    return yaml.safe_load(disk.content(path))


def test_all_files_count_and_digits_stay_what_they_are(files: AclFiles) -> None:
    rules = files.rules(files.contents())
    assert list(rules.accounts) == ["RocketMQ", "rocketmq2", "0123456"]
    assert rules.accounts["0123456"].secret_key == "0123456"
    assert len(rules.trusted) == 1


def test_an_account_that_is_there_twice_counts_where_it_is_first(
    files: AclFiles, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.replace_file(MORE, b"accounts: [{accessKey: RocketMQ, secretKey: 87654321}]")
    assert files.rules(files.contents()).accounts["RocketMQ"].secret_key == "12345678"
    assert "/conf/acl/more.yml: the account RocketMQ is there twice" in caplog.text


@pytest.mark.parametrize(
    "data",
    [b"accounts: [", b"\xff\xfe\xfd", b"a: *b", b"%", b"[" * 1000, b"- 1", b"accounts: text",
     b"\0", b"#" * 1_100_000, b"!!python/object/apply:os.getcwd []"],
)  # fmt: skip
def test_a_damaged_file_is_an_error_that_names_it(
    files: AclFiles, disk: FaultyDisk, data: bytes
) -> None:
    disk.replace_file(MORE, data)
    with pytest.raises(ConfigError, match=r"^/conf/acl/more.yml: .") as caught:
        files.rules(files.contents())
    assert "\n" not in str(caught.value)


def test_without_a_reader_of_yaml_it_says_what_to_install(
    disk: FaultyDisk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'penstock-mq\[acl\]'"):
        AclFiles(disk, "/conf", clock)


def test_a_new_account_goes_into_the_main_file(
    files: AclFiles, disk: FaultyDisk, clock: FakeClock
) -> None:
    files.put_account(NEW)
    assert list(files.rules(files.contents()).accounts)[:3] == ["RocketMQ", "rocketmq2", "newcomer"]
    assert written(disk)["accounts"][-1] == NEW
    assert written(disk)["globalWhiteRemoteAddresses"] == ["10.10.103.*"]
    version = {"counter": 1, "timestamp": clock.wall_ns() // MILLISECOND}
    assert written(disk)["dataVersion"] == [version]
    assert files.versions() == {PATH: version, MORE: {"counter": 0, "timestamp": 0}}


def test_an_account_is_changed_in_its_file(files: AclFiles, disk: FaultyDisk) -> None:
    files.put_account({"accessKey": "0123456", "secretKey": "7654321", "admin": True})
    assert disk.content(PATH) == RULES
    account = files.rules(files.contents()).accounts["0123456"]
    assert (account.secret_key, account.is_admin) == ("7654321", True)
    files.put_account({"accessKey": "RocketMQ", "secretKey": "12345678", "topicPerms": ["t=PUB"]})
    account = files.rules(files.contents()).accounts["RocketMQ"]
    assert list(account.permissions) == ["%RETRY%groupA", "t"]
    assert account.trusted.matches("192.168.7.7")


@pytest.mark.parametrize(
    "change", [{"secretKey": "short"}, {"topicPerms": ["t"]}, {"whiteRemoteAddress": "x"}, None]
)
def test_a_change_without_sense_or_room_changes_nothing(
    files: AclFiles, disk: FaultyDisk, change: dict[str, Any] | None
) -> None:
    if change is None:
        disk.fill()
    with pytest.raises(DiskFullError if change is None else ConfigError):
        files.put_account({**NEW, **(change or {})})
    assert disk.content(PATH) == RULES


def test_accounts_are_deleted_where_they_are(files: AclFiles, disk: FaultyDisk) -> None:
    assert files.delete_account("0123456")
    assert not files.delete_account("0123456")
    assert written(disk, MORE)["accounts"] == []
    assert disk.content(PATH) == RULES


def test_trusted_addresses_are_replaced_in_one_file(files: AclFiles, disk: FaultyDisk) -> None:
    files.set_trusted(["1.1.1.1", "2.2.2.*"], None)
    files.set_trusted(["3.3.3.3"], MORE)
    assert written(disk)["globalWhiteRemoteAddresses"] == ["1.1.1.1", "2.2.2.*"]
    assert len(files.rules(files.contents()).trusted) == 3
    for path in ("/etc/passwd", "/conf/acl/../plain_acl.yml", "/conf/acl/notes.txt"):
        with pytest.raises(ConfigError, match="is not a file of access rules"):
            files.set_trusted(["3.3.3.3"], path)
    with pytest.raises(ConfigError, match="'nowhere' is not an address"):
        files.set_trusted(["nowhere"], None)


keys = st.text(min_size=7, max_size=12) | st.text(
    st.sampled_from("ab-:#\n\r\x85\u2028'\" "), min_size=7
)
names = st.text(min_size=1, max_size=8)


def what_it_says(account: Account) -> tuple[object, ...]:
    return (account.secret_key, account.is_admin, account.default_topic, account.default_group,
            account.permissions, account.trusted.matches("1.2.3.4"))  # fmt: skip


@given(keys, keys, st.lists(names, max_size=2))
def test_what_an_account_says_is_the_account_and_no_more(
    access_key: str, secret_key: str, topics: list[str]
) -> None:
    disk = FaultyDisk("/")
    disk.make_directory("/conf")
    disk.replace_file(PATH, RULES)
    files = AclFiles(disk, "/conf", FakeClock())
    before = files.rules(files.contents())
    asked = {"accessKey": access_key, "secretKey": secret_key,
             "topicPerms": [f"{topic}=PUB" for topic in topics]}  # fmt: skip
    try:
        wanted = Account.parse(asked)
        files.put_account(asked)
    except ConfigError:
        assert disk.content(PATH) == RULES
        return
    after = files.rules(files.contents())
    said = {key: what_it_says(account) for key, account in before.accounts.items()}
    said.setdefault(wanted.access_key, what_it_says(wanted))
    assert {key: what_it_says(account) for key, account in after.accounts.items()} == said
    assert len(after.trusted) == len(before.trusted)


def test_what_would_be_read_back_differently_is_not_written(
    files: AclFiles, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = b"accounts:\n- {accessKey: newcomer, secretKey: secret-key, admin: true}\n"
    monkeypatch.setattr(module, "_written", lambda value: more)
    with pytest.raises(ConfigError, match="would not read back as what was asked"):
        files.put_account(NEW)
    assert disk.content(PATH) == RULES
