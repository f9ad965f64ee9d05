"""A follower as a program: what it copies, refuses and shows, and what promotion makes of it."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.daemons import Daemon, DaemonError, run_nsqd
from tests.copies import WAIT_S_MAX, ask, publish, until, until_copied
from tests.forwarding import wait_until
from tools.harness.certificates import Certificates
from tools.harness.patience import patient_nsqd

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
