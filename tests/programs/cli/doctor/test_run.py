"""``penstock doctor`` as a user meets it: its text, its JSON, its exit code, its repairs."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.testing.daemons import run_nsqd
from tests.unit.cli.doctor.patients import everything, healthy, segments
from tests.unit.cli.nodes_at_work import Commands, consume, publish


def test_a_healthy_node_before_during_and_after_its_life(tmp_path: Path, command: Commands) -> None:
    path = f"--data-path={tmp_path}"
    with run_nsqd(data_path=tmp_path) as nsqd:
        publish(nsqd, "t", [b"%d" % number for number in range(10)])
        consume(nsqd, "t", "c", 10)
        node = f"--nsqd-http-address={nsqd.http}"
        ended = command("doctor", node)
        assert (ended.code, ended.out.splitlines()[-1]) == (0, "no fault found")
        ended = command("doctor", path)
        assert ended.code == 1
        assert f"it is in use by nsqd (process {nsqd.pid})" in ended.out
        ended = command("doctor", path, node)
        assert ended.code == 0
        assert ended.out.startswith("note     data path")
    before = everything(tmp_path)
    ended = command("doctor", path)
    assert (ended.code, ended.out, ended.err) == (
        0, f"examined data path {tmp_path}: 1 topic, 10 messages\nno fault found\n", ""
    )  # fmt: skip
    assert everything(tmp_path) == before
    with run_nsqd(data_path=tmp_path) as nsqd:
        publish(nsqd, "t", [b"unread"])
        nsqd.kill()
        assert command("doctor", path).code == 0
        nsqd.start()


def test_a_folder_of_another_program_is_a_fault(tmp_path: Path, command: Commands) -> None:
    (tmp_path / "notes.txt").touch()
    for more in ((), ("--repair",)):
        ended = command("doctor", f"--data-path={tmp_path}", *more)
        assert (ended.code, ended.out.splitlines()[0], ended.err) == (
            1, f"error    data path {tmp_path}: it is not a data path: "
            "it has no file of nsqd or mqbroker", "",
        )  # fmt: skip
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_repairs_happen_when_told(tmp_path: Path, command: Commands) -> None:
    folder = healthy(tmp_path)
    segments(folder)[1].unlink()
    with segments(folder)[-1].open("ab") as newest:
        newest.write(b"torn")
    (folder / "queue.json.00000000.tmp").touch()
    path, before = f"--data-path={tmp_path}", everything(tmp_path)
    ended = command("doctor", path, "--json")
    found = json.loads(ended.out)
    assert (ended.code, ended.err) == (1, "")
    assert {each["code"]: each["level"] for each in found["findings"]} == {
        "damage": "error", "torn-tail": "warning", "leftovers": "warning"
    }  # fmt: skip
    assert everything(tmp_path) == before
    ended = command("doctor", path, "--repair")
    assert ended.code == 1
    assert [line for line in ended.out.splitlines() if line.startswith(("error", "warn"))] == [
        line for line in ended.out.splitlines() if "topic orders: on record: log: cut short" in line
    ]
    ended = command("doctor", path, "--accept-damage")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "no fault found")
    with run_nsqd(data_path=tmp_path) as nsqd:
        assert command("doctor", f"--nsqd-http-address={nsqd.http}").code == 0


def test_a_configuration_alone_asks_no_node(tmp_path: Path, command: Commands) -> None:
    (tmp_path / "nsqd.toml").write_text('tcp_adress = ":4150"')
    ended = command("doctor", f"--config={tmp_path / 'nsqd.toml'}")
    assert ended.code == 1
    assert ended.out.splitlines()[-1] == "1 fault"
    assert "did you mean tcp_address?" in ended.out
    assert "4151" not in ended.out


def test_a_data_path_in_use_is_not_repaired(tmp_path: Path, command: Commands) -> None:
    with run_nsqd(data_path=tmp_path):
        ended = command("doctor", f"--data-path={tmp_path}", "--repair")
    assert ended.code == 1
    assert ended.err.startswith(f"penstock: {tmp_path} cannot be repaired: cannot flock")
