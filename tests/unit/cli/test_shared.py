"""What commands share: times, pipes, stops, data paths, a broker that opens, RocketMQ's port."""

from __future__ import annotations

import errno
import io
import os
import signal
import time
from contextlib import AsyncExitStack, closing, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.cli.backup import run_list as list_backups
from penstock.cli.flags.help_flags import run_help_flags
from penstock.cli.live.display import Board, PlainDisplay
from penstock.cli.mqbroker import node_options
from penstock.cli.shared import broker_opening
from penstock.cli.shared.broker_opening import TRY_NS, Opening, prepare_store
from penstock.cli.shared.data_paths import is_data_path, own_files
from penstock.cli.shared.pipes import quiet_pipe, spell_out
from penstock.cli.shared.rocketmq_port import check_open_doors, rocketmq_settings
from penstock.cli.shared.starting import starting
from penstock.cli.shared.stop import Stop
from penstock.cli.shared.times import ago, moment_ns, seconds
from penstock.core.errors import ConfigError, LockedError, PenstockError, StorageError
from penstock.core.moments import rfc3339
from penstock.core.settings.tls_kinds import TlsRequired
from penstock.net import tcp
from penstock.net.tcp import ListenError
from penstock.node.node_options import NodeOptions
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.replication.standby import Standby
from penstock.replication.state import ReplicationState, Role, write_state
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.broker.slaves import master_address
from penstock.storage.backup import manifest
from penstock.storage.files.disk import OsDisk
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.conftest import broker_settings
from tools.harness.go_files import delivered, expected, messages, nsqd_dat, open_store, queue

NOW_NS = 1_795_294_921_053_775_026
SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", SECOND),
        ("1970-01-01t01:00:01.5+01:00", SECOND + SECOND // 2),
        ("1970-01-01 00:00:00.000000001Z", 1),
        ("2h", NOW_NS - 7200 * SECOND),
        ("1m30s", NOW_NS - 90 * SECOND),
        ("3d", NOW_NS - 3 * 86400 * SECOND),
        ("99999d", 0),
        ("1960-01-01T00:00:00Z", 0),
        ("9999-12-31T00:00:00Z", (1 << 63) - 1),
        (rfc3339(NOW_NS), NOW_NS // 1000 * 1000),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert moment_ns("--from-time", text, NOW_NS) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01T00:00:00Z", "-2h", "2026-01-01", "1" * 5000 + "d"]
)
def test_what_is_no_moment_is_said_with_its_flag(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--to-time {text}"):
        moment_ns("--to-time", text, NOW_NS)


@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "Asia/Tokyo"])
def test_local_times_of_the_first_and_the_last_year(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert moment_ns("--to-time", "9999-12-31T23:59:59", NOW_NS) == (1 << 63) - 1
        assert moment_ns("--from-time", "0001-01-01T00:00:00", NOW_NS) == 0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_durations_and_ages() -> None:
    assert seconds("--interval", "250ms") == 0.25
    for text in ("0s", "-1s", "1", "x"):
        with pytest.raises(ConfigError, match="--interval"):
            seconds("--interval", text)
    ages = {-5: "0s", 59: "59s", 60: "1m", 7300: "2h", 200_000: "2d"}
    assert {age_s: ago(age_s * SECOND) for age_s in ages} == ages


class Gone(io.StringIO):
    """Its reader has had enough."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_whoever_writes_ends_quietly() -> None:
    steps = []
    with redirect_stdout(Gone()), quiet_pipe():
        steps.append("before")
        print("x")
        steps.append("after")
    assert steps == ["before"]


def test_a_full_disk_is_an_error_and_any_other_is_not_hidden() -> None:
    full = "^standard output takes no more: no space left on device$"
    with pytest.raises(PenstockError, match=full), quiet_pipe():
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError), quiet_pipe():
        raise FileNotFoundError(errno.ENOENT, "of something else")


def test_a_terminal_without_the_characters_gets_escapes() -> None:
    written = io.BytesIO()
    out = io.TextIOWrapper(written, encoding="latin-1")
    with redirect_stdout(out):
        spell_out()
        print("\u25cf f\u00fcr", flush=True)
    assert written.getvalue() == b"\\u25cf f\xfcr\n"


def test_lists_and_the_lines_of_services_end_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "moments", lambda disk, folder: ["20260101T000000Z"])
    monkeypatch.setattr(manifest, "load", lambda *_: manifest.Manifest("/data", 0))
    with redirect_stdout(Gone()) as gone:
        run_help_flags(["nsqd", "retention"])
        list_backups(Path("/backups"))
        display = PlainDisplay(Board("up"), gone)
        display.note("publish to 127.0.0.1:4150")
        display.close()


def test_a_signal_asks_and_a_later_one_interrupts() -> None:
    clock = FakeClock()
    before = signal.getsignal(signal.SIGTERM)
    with Stop(clock) as stop:
        assert not stop.asked
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked
        clock.advance(200_000_000)
        os.kill(os.getpid(), signal.SIGINT)  # the echo of the first
        clock.advance(1_000_000_000)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_sleep_ends_when_a_signal_comes_and_at_its_time() -> None:
    clock = FakeClock()  # it stands still: only the signal ends this
    with Stop(clock) as stop:
        stop.sleep_until(clock.monotonic_ns())
        assert not stop.asked
        signal.signal(signal.SIGALRM, stop._on_signal)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        stop.sleep_until(clock.monotonic_ns() + 10**12)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        assert stop.asked


@pytest.mark.parametrize("kind", [ConfigError, StorageError, LockedError, ListenError])
def test_a_cause_gets_the_words_of_the_program(kind: type[PenstockError]) -> None:
    with pytest.raises(PenstockError) as raised, starting("it cannot start"):
        raise kind("why")
    assert str(raised.value) == "it cannot start - why"
    assert isinstance(raised.value.__cause__, kind)
    with pytest.raises(PenstockError, match=r"^why$"), starting("it cannot start"):
        raise PenstockError("why")


@pytest.mark.parametrize(
    ("names", "is_one"),
    [
        ("nsqd.dat ids.json rocketmq-serials.json replication.json config/topics.json "
         "clicks.diskqueue.000000.dat topics/orders.v1@0/queue.json "
         "topics/gone@12.deleted/queue.json", True),
        ("topics/readme.md topics/a@b/x config/settings.json topics config notes.txt", False),
    ],
)  # fmt: skip
def test_any_file_of_a_node_makes_a_data_path(tmp_path: Path, names: str, is_one: bool) -> None:
    for number, name in enumerate(names.split()):
        file = tmp_path / str(number) / name
        file.parent.mkdir(parents=True)
        file.touch()
        assert is_data_path(str(tmp_path / str(number))) == is_one, name
    (tmp_path / "empty").mkdir()
    assert not is_data_path(str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError):
        is_data_path(str(tmp_path / "no"))


def test_files_of_others_are_left_out_and_those_of_go_share_a_pattern() -> None:
    names = ["notes.txt", "topics", "nsqd.dat", "go-nsqd-imported-2", "aside", "nsqd.dat.bak",
             "t.diskqueue.000000.dat", "t.diskqueue.meta.dat"]  # fmt: skip
    go = "*.diskqueue.*.dat"
    assert own_files(names) == {
        "topics": "topics", "nsqd.dat": "nsqd.dat", "go-nsqd-imported-2": "go-nsqd-imported-2",
        "aside": "aside", "t.diskqueue.000000.dat": go, "t.diskqueue.meta.dat": go,
    }  # fmt: skip


OLD, OTHER, OWN = "10.0.0.1:10912", "10.0.0.2:10912", "10.0.0.3:10912"


@pytest.fixture
def settings(tmp_path: Path) -> BrokerSettings:
    found = broker_settings(tmp_path)
    found.broker_role, found.broker_id, found.namesrv_addr = "SLAVE", 1, "ns:1"
    return found


def opening(settings: BrokerSettings, turns: list[str], *, is_turn: bool = False) -> Opening:
    return Opening(settings, lambda follow: node_options(settings, 20, follow), AsyncExitStack(),
                   lambda: turns.append("turn"), is_turn=is_turn)  # fmt: skip


def knows(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Let name servers know this master."""

    async def found(settings: BrokerSettings) -> str:
        return address

    monkeypatch.setattr(master_address, "master", found)
    monkeypatch.setattr(master_address, "wait_for_master", found)


def stands(settings: BrokerSettings, role: Role) -> None:
    standing = ReplicationState("h", 1, role, OLD)
    write_state(OsDisk(), settings.store_path_root_dir, standing)


@pytest.mark.parametrize(
    ("role", "known", "is_turn", "followed"),
    [
        (None, OTHER, False, OTHER),
        (Role.FOLLOWER, OTHER, False, OTHER),
        (Role.FOLLOWER, "", False, OLD),
        (Role.FENCED, OTHER, False, OTHER),
        (Role.PRIMARY, OTHER, True, OLD),  # it was promoted just now
    ],
)
async def test_a_slave_follows_the_master_that_name_servers_know_or_the_one_before(
    settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch, role: Role | None, known: str,
    is_turn: bool, followed: str,
) -> None:  # fmt: skip
    knows(monkeypatch, known)
    if role is not None:
        stands(settings, role)
    assert await opening(settings, [], is_turn=is_turn)._followed() == followed
    settings.ha_master_address = OWN
    assert await opening(settings, [])._followed() == OWN


def test_no_master_opens_the_store_of_a_slave(settings: BrokerSettings) -> None:
    opening(settings, [])._check_standing()
    stands(settings, Role.FENCED)
    opening(settings, [])._check_standing()
    stands(settings, Role.FOLLOWER)
    with pytest.raises(PenstockError, match=f"of the broker at {OLD}: start it with brokerRole"):
        opening(settings, [])._check_standing()


@pytest.mark.parametrize(
    ("error", "told", "later_ns", "turns"),
    [
        ("gone", OTHER, TRY_NS, ["turn"]),
        ("gone", OTHER, 0, []),
        (None, OTHER, TRY_NS, []),
        ("gone", OLD, TRY_NS, []),
        ("gone", OWN, TRY_NS, []),
    ],
)
def test_a_master_that_is_elsewhere_is_followed_there_once_the_old_one_is_gone(
    settings: BrokerSettings, error: str | None, told: str, later_ns: int, turns: list[str]
) -> None:
    heard: list[str] = []
    opened = opening(settings, heard)
    clock = FakeClock()
    opened._opened_ns = clock.monotonic_ns()
    clock.advance(later_ns)
    standby: Any = SimpleNamespace(state=ReplicationState("h", 1, Role.FOLLOWER, OLD), clock=clock,
                                   pulling=SimpleNamespace(error=error), address=OWN)  # fmt: skip
    opened._told_master(cast(Standby, standby), told)
    assert heard == turns


def test_a_master_goes_on_without_a_port_for_slaves_that_is_taken(
    settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(address: str) -> None:
        raise tcp.ListenError(f"listen ({address}) failed")

    monkeypatch.setattr(broker_opening, "check_free", taken)
    settings.broker_role, settings.listen_port = "ASYNC_MASTER", 7
    assert opening(settings, [])._replication_address() == ""
    settings.ha_listen_port = 9
    assert opening(settings, [])._replication_address() == "127.0.0.1:9"
    settings.acl_enable = True
    assert opening(settings, [])._replication_address() == ""


def test_a_store_is_prepared_without_nsqs_ports_too(tmp_path: Path) -> None:
    """What a Go nsqd has left is taken over, and a store that is no primary's refused."""
    found = messages(range(3))
    for name, content in {**queue("t", found), **nsqd_dat({"t": []})}.items():
        (tmp_path / name).write_bytes(content)
    with closing(open_store(OsDisk(), str(tmp_path))) as store:
        prepare_store(NodeOptions(), store)
    assert delivered(OsDisk(), str(tmp_path)) == {"t": {"": expected(found)}}
    (tmp_path / "fenced").mkdir()
    fenced = str(tmp_path / "fenced")
    write_state(OsDisk(), fenced, ReplicationState("h", 1, Role.FENCED, OLD))
    refused = pytest.raises(ConfigError, match="is that of a fenced node")
    with closing(open_store(OsDisk(), fenced)) as store, refused:
        prepare_store(NodeOptions(), store)


TLS = {"tls.server.mode": "enforcing", "tls.server.certPath": "c", "tls.server.keyPath": "k"}
ANY_CERTIFICATE = {**TLS, "tls.server.need.client.auth": "require"}
KNOWN_CERTIFICATE = {**ANY_CERTIFICATE, "tls.server.authClient": "true"}
ACL = {"aclEnable": "true"}
REQUIRED: dict[str, Any] = {"tls_required": TlsRequired.YES}
REQUIRE: dict[str, Any] = {"tls_client_auth_policy": "require"}
VERIFY: dict[str, Any] = {"tls_client_auth_policy": "require-verify"}
AUTH: dict[str, Any] = {"auth_http_addresses": ("127.0.0.1:1",)}


def problem(flags: dict[str, Any], properties: dict[str, str]) -> str | None:
    settings = BrokerSettings()
    settings.update(properties)
    try:
        check_open_doors(NsqdOptions(rocketmq_address=":10911", **flags), settings)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("flags", "properties"),
    [
        ({}, {}),
        ({}, ACL),
        (REQUIRED, TLS),
        ({"tls_required": TlsRequired.EXCEPT_HTTP}, TLS),
        (REQUIRE, ANY_CERTIFICATE),
        (VERIFY, KNOWN_CERTIFICATE),
        (VERIFY, {**TLS, **ACL}),
        (AUTH, ACL),
        ({**REQUIRED, **AUTH}, {**TLS, **ACL}),
        ({**VERIFY, **REQUIRED, **AUTH, "rocketmq_open": True}, {}),
    ],
)
def test_doors_that_are_closed_alike(flags: dict[str, Any], properties: dict[str, str]) -> None:
    assert problem(flags, properties) is None


@pytest.mark.parametrize(
    ("flags", "properties", "words"),
    [
        (REQUIRED, {}, "--tls-required closes: set tls.server.mode=enforcing"),
        (REQUIRED, ACL, "--tls-required closes: set tls.server.mode=enforcing"),
        (REQUIRED, {**TLS, "tls.server.mode": "permissive"}, "--tls-required closes"),
        (REQUIRE, {}, "--tls-client-auth-policy, --tls-client-auth-policy=require closes"),
        (REQUIRE, TLS, "=require closes: set tls.server.need.client.auth=require, or aclEnable"),
        (VERIFY, ANY_CERTIFICATE, "require and tls.server.authClient=true, or aclEnable=true in"),
        (VERIFY, ACL, "--tls-client-auth-policy closes: set tls.server.mode=enforcing in the"),
        (AUTH, TLS, "--auth-http-address closes: set aclEnable=true in the file of "
         "--rocketmq-config, or use --rocketmq-open"),
    ],
)  # fmt: skip
def test_a_door_that_is_open(flags: dict[str, Any], properties: dict[str, str], words: str) -> None:
    found = problem(flags, properties)
    assert found is not None
    assert found.startswith("--rocketmq-address=:10911 opens to everybody what ")
    assert words in found


@pytest.mark.parametrize("closing", [ACL, TLS])
@pytest.mark.parametrize("name", ["nsqTcpAddress", "nsqHttpAddress"])
def test_a_broker_opens_no_port_of_nsqs_beside_a_closed_one(
    closing: dict[str, str], name: str
) -> None:
    settings = BrokerSettings()
    settings.update({**closing, name: "127.0.0.1:0"})
    with pytest.raises(ConfigError, match=r"nsqHttpAddress open to everybody what .* nsqOpen=true"):
        settings.check()
    settings.update({"nsqOpen": "true"})
    settings.check()
    settings.update({"nsqOpen": "false", name: ""})
    settings.check()


def test_a_sync_master_s_word_is_not_nsqd_s(tmp_path: Path) -> None:
    """NSQ's publishes would not wait for the slave; --replicas-acked is for both."""
    config = tmp_path / "rocketmq.properties"
    config.write_text("brokerRole=SYNC_MASTER\n")
    options = NsqdOptions(rocketmq_address=":10911", rocketmq_config=str(config), replicas_acked=1)
    options.check()
    with pytest.raises(ConfigError, match="brokerRole=SYNC_MASTER is for mqbroker; with nsqd's"):
        rocketmq_settings(options)
    config.write_text("brokerRole=ASYNC_MASTER\n")
    assert not rocketmq_settings(options).is_sync_master
