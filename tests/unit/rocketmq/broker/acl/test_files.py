"""The files of access rules: read, and changed by commands."""

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
from penstock.rocketmq.broker.acl.files import AclFiles
from penstock.rocketmq.broker.acl.rules import Account
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk

from .test_check import PATH, RULES

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
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def files(disk: FaultyDisk, clock: FakeClock) -> AclFiles:
    return AclFiles(disk, "/conf", clock)


def value(disk: FaultyDisk, path: str = PATH) -> Any:
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


def test_a_missing_main_file_is_an_error(files: AclFiles, disk: FaultyDisk) -> None:
    disk.remove(PATH)
    with pytest.raises(ConfigError, match=r"there is no /conf/plain_acl\.yml"):
        files.contents()


def test_without_a_reader_of_yaml_it_says_what_to_install(
    disk: FaultyDisk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'penstock\[acl\]'"):
        AclFiles(disk, "/conf", clock)


def test_a_new_account_goes_into_the_main_file(
    files: AclFiles, disk: FaultyDisk, clock: FakeClock
) -> None:
    files.put_account(NEW)
    assert list(files.rules(files.contents()).accounts)[:3] == ["RocketMQ", "rocketmq2", "newcomer"]
    written = value(disk)
    assert written["accounts"][-1] == NEW
    assert written["globalWhiteRemoteAddresses"] == ["10.10.103.*"]
    now_ms = clock.wall_ns() // MILLISECOND
    assert written["dataVersion"] == [{"counter": 1, "timestamp": now_ms}]
    assert files.versions() == {
        PATH: {"counter": 1, "timestamp": now_ms},
        MORE: {"counter": 0, "timestamp": 0},
    }


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
    "change", [{"secretKey": "short"}, {"topicPerms": ["t"]}, {"whiteRemoteAddress": "x"}]
)
def test_a_change_without_sense_changes_nothing(
    files: AclFiles, disk: FaultyDisk, change: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        files.put_account({**NEW, **change})
    assert disk.content(PATH) == RULES


def test_a_full_disk_changes_nothing(files: AclFiles, disk: FaultyDisk) -> None:
    disk.fill()
    with pytest.raises(DiskFullError):
        files.put_account(NEW)
    assert disk.content(PATH) == RULES


def test_accounts_are_deleted_where_they_are(files: AclFiles, disk: FaultyDisk) -> None:
    assert files.delete_account("0123456")
    assert not files.delete_account("0123456")
    assert value(disk, MORE)["accounts"] == []
    assert disk.content(PATH) == RULES


def test_trusted_addresses_are_replaced_in_one_file(files: AclFiles, disk: FaultyDisk) -> None:
    files.set_trusted(["1.1.1.1", "2.2.2.*"], None)
    files.set_trusted(["3.3.3.3"], MORE)
    assert value(disk)["globalWhiteRemoteAddresses"] == ["1.1.1.1", "2.2.2.*"]
    assert len(files.rules(files.contents()).trusted) == 3
    for path in ("/etc/passwd", "/conf/acl/../plain_acl.yml", "/conf/acl/notes.txt"):
        with pytest.raises(ConfigError, match="is no file of access rules"):
            files.set_trusted(["3.3.3.3"], path)
    with pytest.raises(ConfigError, match="'nowhere' is no address"):
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
