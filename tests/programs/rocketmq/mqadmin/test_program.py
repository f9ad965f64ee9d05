"""The program: what it prints for which command line, with which exit code, and what it sends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.client import Config
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.mqadmin import admin, rounds
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.messages import finding, sending, traces
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.mqadmin.program import config_of, run
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.programs.rocketmq.client.secured import run_with_tls
from tests.unit.rocketmq.mqadmin.fake_admin import FakeAdmin, answer, in_json, interrupted, printed
from tools.harness.ports import unused_address
from tools.harness.rocketmq.servers import SECONDS, run_servers, wait_for_route


class PatientAdmin(Admin):
    """One run of the tool, which waits for every answer as long as a busy machine may take."""

    timeout_s = long_timeout_s = SECONDS

    def __init__(self, name_servers: str = "", config: Config | None = None) -> None:
        patient: dict[str, Any] = {
            f"{name}_timeout": SECONDS for name in ("connect", "request", "send_msg")
        }
        super().__init__(name_servers, replace(config or Config(), **patient))


def test_without_words_the_sub_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    out = capsys.readouterr().out
    assert out.startswith("The most commonly used mqadmin commands are:\n   updateTopic          ")
    assert out.endswith(
        "See 'mqadmin help <command>' for more information on a specific command.\n"
    )


@pytest.mark.parametrize(
    ("line", "code", "expected", "said"),
    [
        ("help topicList", 0, "usage: mqadmin topicList ", ""),
        ("topicList -h", 0, "usage: mqadmin topicList ", ""),
        ("TOPICLIST -z", 1, "usage: mqadmin topicList ", " topicList: there is no option -z"),
        ("topicRoute", 1, "usage: mqadmin topicRoute ",
         " topicRoute: -t (--topic) must be given"),
        ("updateTopic", 1, "usage: mqadmin updateTopic ",
         " updateTopic: -t (--topic) must be given"),
        ("updateTopic -t T", 1, "usage: mqadmin updateTopic ",
         " updateTopic: exactly one of -b (--brokerAddr), -c (--clusterName) must be given"),
        ("topicRoute --topc T", 1, "usage: mqadmin topicRoute ",
         " topicRoute: there is no option --topc; did you mean --topic?"),
        ("topicRoute -t", 1, "usage: mqadmin topicRoute ",
         " topicRoute: -t (--topic) needs a value"),
        ("topicLst", 0, "The sub command topicLst not exist.\n",
         ": there is no sub-command topicLst; did you mean topicList?"),
        ("help zzz", 0, "The sub command zzz not exist.\n",
         ": there is no sub-command zzz; mqadmin lists them"),
    ],
)  # fmt: skip
def test_exit_codes_are_upstreams(
    line: str, code: int, expected: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == code
    found = capsys.readouterr()
    assert found.out.startswith(expected)
    assert found.err == (f"mqadmin{said}\n" if said else "")


def test_a_failure_is_one_line_and_in_json_an_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = unused_address()
    assert run(["topicList", "-n", address]) == 0
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("mqadmin topicList: connect to name servers failed: ")
    assert found.err.count("\n") == 1
    assert run(["topicList", "--json", "-n", address]) == 1
    assert address in json.loads(capsys.readouterr().out)["error"]


def test_a_word_that_is_no_text_is_shown_by_its_bytes() -> None:
    program: list[str | bytes] = [sys.executable, "-m", "penstock.cli.mqadmin"]
    words = [*program, "topicList", "-n", b"x\xff:1", "--json"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 1
    assert "x\udcff:1" in json.loads(done.stdout)["error"]


def test_the_usage_where_broker_and_cluster_are_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["updateSubGroup", "-g", "G", "-n", unused_address()]) == 0
    found = capsys.readouterr()
    assert found.out.startswith("usage: mqadmin updateSubGroup ")
    assert found.err == (
        "mqadmin updateSubGroup: the options name neither a broker nor a cluster: give -b or -c\n"
    )


def test_the_account_of_tools_yml_and_options_of_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    text = "# for tools\naccessKey: 'rocketmq2'\nsecretKey: \"12345678\"\n"
    (tmp_path / "conf" / "tools.yml").write_text(text)
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    config = config_of(ParsedOptions({"client-opt": "vip_channel_enabled\0connect_timeout,7s"}))
    assert (config.access_key, config.secret_key) == ("rocketmq2", "12345678")
    assert (config.vip_channel_enabled, config.connect_timeout) == (True, 7.0)
    with pytest.raises(ConfigError, match="nosuch"):
        config_of(ParsedOptions({"client-opt": "nosuch,1"}))
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path / "none"))
    assert config_of(ParsedOptions()).access_key == ""


def test_access_rules_are_not_told_to_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the account of tools.yml may change is in tests/conformance/test_mqadmin.py."""
    monkeypatch.setattr(admin, "Admin", PatientAdmin)
    (tmp_path / "plain_acl.yml").write_text("accounts: []\n")
    with run_servers(aclEnable="true", nsqOpen="true", aclDirectory=tmp_path) as servers:
        assert run(["getAclConfig", "--json", "-b", servers.broker.rocketmq]) == 1
    assert json.loads(capsys.readouterr().out)["code"] == 16


def test_servers_that_speak_tls_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(admin, "Admin", PatientAdmin)
    with run_with_tls(tmp_path) as (servers, config):
        options = ["tls_enable,true", f"tls_trust_cert_path,{config.tls_trust_cert_path}"]
        words = [word for each in options for word in ("--client-opt", each)]
        assert run(["clusterList", "--json", "-n", servers.address, *words]) == 0
        assert json.loads(capsys.readouterr().out)["brokers"][0]["version"] == "V4_9_8"


# --- sending; that it reads as upstream's is shown on real servers --------------------------------


@pytest.fixture(scope="module")
def tool() -> Iterator[Admin]:
    with run_servers(traceTopicEnable="true") as servers:
        found = PatientAdmin(servers.address)
        yield found
        found.close()


def test_a_message_with_a_trace_that_is_found(tool: Admin) -> None:
    sent = in_json(
        sending.send_message, tool, topic="Sent", body="tea", key="k", tags="A",
        msgTraceEnable="true",
    )["sent"][0]  # fmt: skip
    assert (sent["broker"], sent["status"]) == ("broker-a", "SEND_OK")
    found = None
    ends = time.monotonic() + SECONDS
    while found is None:  # traces are indexed a moment later
        assert time.monotonic() < ends, "no trace is found"
        with suppress(Refused):
            found = in_json(traces.query_trace, tool, msgId=sent["id"])["traces"]
    assert [each["type"] for each in found] == ["Pub"]


def test_a_message_is_sent_again(tool: Admin) -> None:
    in_json(sending.send_message, tool, topic="Again", body="tea", key="again", tags="A")
    wait_for_route(tool.name_servers[0], "Again")
    first = tool.do(finding.with_key(tool, "Again", "again", 9))[0]
    text = printed(finding.query_msg_by_id, tool, msgId=first.offset_id, sendMessage="true")
    told = f"prepare resend msg. originalMsgId={first.offset_id}SendResult [sendStatus=SEND_OK, "
    assert text.startswith(told)
    found = tool.do(finding.with_key(tool, "Again", "again", 9))
    assert [each.body for each in found] == [b"tea", b"tea"]


def test_times_of_sends(tool: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    found = in_json(sending.check_rt, tool, topic="Timed", amount="3", size="10")
    assert [each["isSent"] for each in found["times"]] == [True] * 3
    monkeypatch.setattr(rounds, "pause", interrupted)
    texts: list[str] = []
    given = ParsedOptions({"amount": "2", "print log": "true"})
    with pytest.raises(KeyboardInterrupt):
        tool.do(sending.cluster_rt(tool, given, Output(texts.append)))
    assert "|noname|DefaultCluster|broker-a|" in "".join(texts)


# --- name servers and groups ----------------------------------------------------------------------


def test_without_name_servers_only_brokers_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    with closing(Admin()) as found:
        assert found.name_servers == ["a:1", "b:2"]
    monkeypatch.delenv("NAMESRV_ADDR")
    address = unused_address()
    with closing(Admin()) as found:
        with pytest.raises(CommandFailed, match="give it with -n host:9876, or set NAMESRV_ADDR"):
            found.do(found.clusters())
        with pytest.raises(NotConnected, match=f"connect to {address} failed"):
            found.do(found.ask(address, Code.GET_BROKER_CONFIG))


def test_a_group_without_members_is_offline() -> None:
    fake = FakeAdmin({Code.GET_CONSUMER_CONNECTION_LIST: answer({"connectionSet": []})})
    with pytest.raises(Refused, match="CODE: 206  DESC: Not found the consumer group connection"):
        fake.do(fake.connections("G"))
    assert fake.fields(Code.GET_ROUTEINFO_BY_TOPIC)[0]["topic"] == "%RETRY%G"
