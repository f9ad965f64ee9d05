"""A follower: what it copies, serves and tells."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.core.errors import DiskFullError
from penstock.net.http.client.once import request
from penstock.nsq.nsqd.tcp.refusal_port import RefusalPort
from penstock.replication.copy import Copy
from penstock.replication.messages import encode_ack, encode_fetch
from penstock.replication.peer import Fence, Peer, PeerError, PeerStream
from penstock.replication.secret import Secret
from penstock.replication.standby import Standby
from penstock.replication.standby_api import serve
from penstock.replication.state import ReplicationState, Role, write_state
from penstock.storage.files.disk import OsDisk
from penstock.storage.recovery.damage import Damage
from penstock.testing.daemons import Daemon, DaemonError, run_nsqd
from tests.copies import WAIT_S_MAX, ask, publish, until, until_copied
from tests.forwarding import wait_until
from tests.programs.nsq.nsqd.conftest import Start, options
from tests.unit.replication.pieces import new_copy
from tools.harness.certificates import Certificates
from tools.harness.patience import patient_nsqd
from tools.harness.ports import unused_address

PATIENT = patient_nsqd("penstock.replication.successor", "ASK_S")
"""A node that waits for the primary before, although that has no processor for seconds."""


def channel(daemon: Daemon, topic: str, name: str) -> dict[str, Any]:
    stats = ask(daemon, "GET", "/stats?format=json")[1]
    [found] = [each for each in stats["topics"] if each["topic_name"] == topic]
    [of_name] = [each for each in found["channels"] if each["channel_name"] == name]
    return dict(of_name)


def test_a_follower_copies_refuses_shows_and_is_promoted(tmp_path: Path) -> None:
    with (
        run_nsqd("--metrics") as old,
        run_nsqd(f"--follow={old.http}", "--metrics", program=PATIENT) as new,
    ):
        assert ask(old, "POST", "/channel/create?topic=t&channel=c")[0] == 404
        publish(old, "t", "1", "2", "3")
        assert ask(old, "POST", "/channel/create?topic=t&channel=c")[0] == 200
        assert ask(old, "POST", "/channel/pause?topic=t&channel=c")[0] == 200
        assert ask(old, "POST", "/pub?topic=t&defer=3000000", b"later")[0] == 200
        assert ask(old, "POST", "/log/commit?topic=t&group=g", b'{"offsets":{"0":2}}')[0] == 200
        until_copied(old, new, "t")
        assert ask(new, "GET", "/log/fetch?topic=t&offset=0") == ask(
            old, "GET", "/log/fetch?topic=t&offset=0"
        )
        refuses_all_but_reading(old, new)
        shows_the_lag(old, new)
        status, answer = ask(new, "POST", "/replication/promote")
        assert status == 200
        assert (answer["epoch"], answer["old_primary_told"], answer["whole"]) == (2, True, True)
        publish(new, "t", "4")  # a script does so as soon as it is answered
        until(new, role="primary", epoch=2)
        until(old, role="fenced", epoch=1, fenced_epoch=2)
        of_c = channel(new, "t", "c")
        assert (of_c["depth"], of_c["deferred_count"], of_c["paused"]) == (4, 1, True)
        groups = ask(new, "GET", "/log/offsets?topic=t")[1]["groups"]
        assert groups == {"g": {"0": 2}}
        publish(new, "t", "5")
        assert ask(old, "POST", "/pub?topic=t", b"x")[1]["message"] == "FENCED"


def refuses_all_but_reading(old: Daemon, new: Daemon) -> None:
    status, answer = ask(new, "POST", "/pub?topic=t", b"x")
    assert (status, answer["message"], answer["primary"]) == (503, "FOLLOWER", old.http)
    for path in ("/mpub?topic=t", "/topic/delete?topic=t", "/channel/create?topic=t&channel=d",
                 "/log/commit?topic=t&group=g", "/config/log_level"):  # fmt: skip
        assert ask(new, "POST", path, b"x")[0] == 503, path
    assert ask(new, "GET", "/ready")[0] == 503
    assert ask(new, "GET", "/ping") == (200, b"OK")
    with socket.create_connection(("127.0.0.1", new.tcp_port), WAIT_S_MAX) as client:
        client.sendall(b"  V2PUB t\n\0\0\0\1x")
        data = b"".join(iter(lambda: client.recv(1000), b""))
    assert data[8:].startswith(b"E_FOLLOWER a copy of the node at " + old.http.encode())
    follower_of_follower = until(new)
    assert follower_of_follower["role"] == "follower"
    with run_nsqd(f"--follow={new.http}") as third:
        until(third, error=f"{new.http} refuses: FOLLOWER")


def replication(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = ask(daemon, "GET", "/stats?format=json")[1]["replication"]
    return found


def metrics(daemon: Daemon) -> str:
    return str(ask(daemon, "GET", "/metrics")[1].decode())


def shows_the_lag(old: Daemon, new: Daemon) -> None:
    nothing = {"lag_messages": 0, "lag_bytes": 0, "lag_seconds": 0}
    wait_until(lambda: replication(new).items() >= nothing.items(), new.log)
    [follower] = replication(old)["followers"]
    assert (follower["address"], follower["lag_messages"]) == (new.http, 0)
    assert "\nnsqd_replication_primary 0\n" in metrics(new)
    wait_until(lambda: "\nnsqd_replication_lag_seconds 0\n" in metrics(new), new.log)
    assert f'nsqd_follower_lag_messages{{follower="{new.http}"}} 0' in metrics(old)
    assert b"lag_seconds" in ask(new, "GET", "/stats")[1]


def test_a_follower_goes_on_after_either_was_killed(tmp_path: Path) -> None:
    flags = ("--max-bytes-per-file=4096", "--retention-time=1h")
    with run_nsqd(*flags) as old, run_nsqd(f"--follow={old.http}", *flags) as new:
        publish(old, "t", *[f"{number:0500}" for number in range(20)])
        until_copied(old, new, "t")
        new.kill()
        publish(old, "t", *[f"{number:0500}" for number in range(20)])
        old.kill()
        old.start()
        new.start()
        until_copied(old, new, "t")
        fetch = "/log/fetch?topic=t&offset=0&max_bytes=60000000"
        assert ask(new, "GET", fetch) == ask(old, "GET", fetch)
        assert ask(old, "POST", "/topic/delete?topic=t")[0] == 200
        until(new, topics=0)


def test_a_primary_with_a_new_disk_deletes_nothing_of_its_copy(tmp_path: Path) -> None:
    with run_nsqd() as old, run_nsqd(f"--follow={old.http}") as new:
        publish(old, "t", "1", "2")
        until_copied(old, new, "t")
        old.kill()
        (old.data_path / "replication.json").unlink()
        old.flags.append(f"--data-path={tmp_path}")
        old.start()
        until(new, error=f"{old.http} refuses: OTHER_HISTORY")
        publish(old, "other", "x")  # and it gets a history as soon as somebody else copies it
        assert ask(new, "GET", "/log/offsets?topic=t")[1]["queues"][0]["end"] == 2
        status, answer = ask(new, "POST", "/replication/promote")
        assert (status, answer["epoch"], answer["old_primary_told"]) == (200, 2, False)
        until(new, role="primary")
        assert ask(new, "GET", "/stats?format=json&topic=t")[1]["topics"][0]["depth"] == 2


def test_a_data_path_is_opened_in_its_own_role_only(tmp_path: Path) -> None:
    with run_nsqd() as old:
        publish(old, "t", "1")
        with run_nsqd(f"--follow={old.http}", data_path=tmp_path / "copy") as new:
            until_copied(old, new, "t")
        with (
            pytest.raises(DaemonError, match="is a copy of the node at"),
            run_nsqd(data_path=tmp_path / "copy"),
        ):
            pass
        with run_nsqd(data_path=tmp_path / "own") as own:
            publish(own, "mine", "1")
        with run_nsqd(f"--follow={old.http}", data_path=tmp_path / "own") as own:
            for _ in range(WAIT_S_MAX * 20):
                if "has messages that the primary has not" in str(until(own)["error"]):
                    break
                time.sleep(0.05)
            else:
                raise AssertionError(own.log())
            assert ask(own, "GET", "/log/offsets?topic=mine")[1]["queues"][0]["end"] == 1


def test_nodes_know_each_other_by_certificate_and_secret(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    (tmp_path / "secret").write_text("correct-horse-battery")
    secret = f"--replication-secret-file={tmp_path / 'secret'}"
    trust = f"--tls-root-ca-file={certificates.ca}"
    tls = [*certificates.flags(), trust]
    with run_nsqd(*tls, "--tls-client-auth-policy=require-verify", secret) as old:
        follow = f"--follow=https://{old.https}"
        with run_nsqd(*tls, follow, secret) as new:
            until(new, whole=True, error=None)
            assert ask(new, "POST", "/replication/promote")[0] == 403
        with run_nsqd(*tls, follow) as without_secret:
            until(without_secret, error=f"https://{old.https} refuses: REPLICATION_SECRET_REQUIRED")
        with run_nsqd(trust, follow, secret) as without_certificate:
            for _ in range(WAIT_S_MAX * 20):
                if (until(without_certificate)["error"] or "").startswith(f"https://{old.https}"):
                    break
                time.sleep(0.05)
            assert not until(without_certificate)["whole"]
            assert "REPLICATION_SECRET" not in until(without_certificate)["error"]


# --- The HTTP of a fenced node, which hands over what it has -------------------------------------


async def take_all(copy: Copy, stream: PeerStream) -> None:
    """Take and acknowledge the answers of a stream until it ends."""
    while True:
        hello = copy.take(await stream.next(30))
        if hello is not None:
            copy.begin_run(hello)
        stream.say(encode_ack(copy.acknowledge()))


async def test_a_fenced_node_gives_all_it_has_and_counts_what_only_it_has(
    start: Start, tmp_path: Path
) -> None:
    nsqd = await start(data_path=tmp_path)
    await nsqd.publish("t", b"1", b"2", b"3")
    assert (await nsqd.post("/topic/pause?topic=t"))[0] == 200
    topic = nsqd.nsqd.node.broker.topics["t"]
    base = topic.log.id_base
    topic.damage.report(Damage("log", "lost once", first=7, next=8), is_loss=False)
    await nsqd.stop()
    state = ReplicationState("h", 1, Role.FENCED, "b:1", fenced_epoch=2)
    standby = Standby(options(tmp_path), state, Secret(), lambda: None)
    refusals = RefusalPort(standby.refusal_line)
    await standby.open(serve(standby), refusals)

    async def ask(method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        answer = await request(
            method, f"http://127.0.0.1:{standby.ports.http}{path}", 30, body=body
        )
        return answer.status, answer.body

    async def fence(epoch: int, fork: dict[str, tuple[int, int]]) -> int:
        told = Fence("h", epoch, "b:1", fork)
        return (await ask("POST", "/replication/fence", msgspec.json.encode(told)))[0]

    try:
        copy = new_copy()
        stranger = encode_fetch(copy.request("h", 1, 1 << 20, "c:1"))
        status, body = await ask("POST", "/replication/fetch", stranger)
        assert (status, json.loads(body)) == (
            409, {"message": "FENCED", "epoch": 2, "primary": "b:1"})  # fmt: skip
        peer = Peer(f"127.0.0.1:{standby.ports.http}", options(tmp_path), Secret())
        for _ in range(2):
            fetch = encode_fetch(copy.request("h", 1, 1 << 20, "b:1"))
            stream = await peer.stream("/replication/fetch", fetch, 30)
            with pytest.raises(PeerError, match="has closed the connection"):
                await take_all(copy, stream)  # until nothing is left
        await peer.close()
        assert copy.is_whole
        assert copy.topics["t"].log.next_offset == 3
        assert b'"paused":true' in (copy.store.read_file("nsqd.dat") or b"")
        assert await fence(1, {}) == 409
        assert await fence(2, {"t": (base, 1)}) == 200
        shown = json.loads((await ask("GET", "/replication"))[1])
        assert (shown["role"], shown["only_here"]) == ("fenced", {"t": 2})
        status, body = await ask("POST", "/pub?topic=t", b"x")
        assert (status, json.loads(body)["message"]) == (503, "FENCED")
        assert (await ask("POST", "/replication/promote"))[0] == 409
        assert (await ask("GET", "/ping"))[0] == 500
        reader, writer = await asyncio.open_connection("127.0.0.1", standby.ports.tcp)
        writer.write(b"  V2")
        assert b"E_FENCED fenced: b:1 is primary in epoch 2" in await reader.read()
        writer.close()
    finally:
        await standby.close()
        refusals.close_connections()


async def test_a_copy_is_whole_once_it_may_be_promoted(tmp_path: Path) -> None:
    """Not while all that it has taken is still synced, which takes long after a long backlog."""
    primary = unused_address()
    state = ReplicationState("h", 1, Role.FOLLOWER, primary)
    standby = Standby(options(tmp_path, follow=primary), state, Secret(), lambda: None)
    await standby.open(serve(standby))
    try:
        standby.copy.is_whole = True
        for state.was_whole in (False, True):
            answer = await request(
                "GET", f"http://127.0.0.1:{standby.ports.http}/replication", 30, body=b""
            )
            assert json.loads(answer.body)["whole"] is state.was_whole
    finally:
        await standby.close()


async def test_a_standing_that_is_right_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower starts on a full disk, and may be read and promoted."""
    primary = unused_address()
    state = ReplicationState("h", 1, Role.FOLLOWER, primary)
    write_state(OsDisk(), str(tmp_path), state)

    def full(disk: OsDisk, path: str, *data: bytes, sync: bool = True) -> None:
        raise DiskFullError(f"{path}: No space left on device")

    monkeypatch.setattr(OsDisk, "replace_file", full)
    standby = Standby(options(tmp_path, follow=primary), state, Secret(), lambda: None)
    await standby.open(serve(standby))
    await standby.close()
    state.was_whole = True
    changed = Standby(options(tmp_path, follow=primary), state, Secret(), lambda: None)
    with pytest.raises(DiskFullError):
        await changed.open(serve(changed))
    await changed.close()


async def test_a_promotion_that_cannot_be_written_down_leaves_no_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary = unused_address()
    state = ReplicationState("h", 1, Role.FOLLOWER, primary, was_whole=True)
    standby = Standby(options(tmp_path, follow=primary), state, Secret(), lambda: None)
    await standby.open(serve(standby))
    replace_file = OsDisk.replace_file

    def refuse(disk: OsDisk, path: str, *data: bytes, sync: bool = True) -> None:
        if path.endswith("replication.json"):
            raise DiskFullError(f"{path}: No space left on device")
        replace_file(disk, path, *data, sync=sync)

    monkeypatch.setattr(OsDisk, "replace_file", refuse)
    try:
        with pytest.raises(DiskFullError):
            await standby.promote(force=True)
        assert standby.state.role is Role.FOLLOWER
        assert json.loads((tmp_path / "epochs.json").read_bytes())["epochs"] == []
    finally:
        await standby.close()
