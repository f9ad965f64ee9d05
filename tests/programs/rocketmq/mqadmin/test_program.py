"""The program: what it prints for which command line, and with which exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.mqadmin import admin
from penstock.rocketmq.mqadmin.options import Given
from penstock.rocketmq.mqadmin.program import config_of, run
from tests.programs.rocketmq.client.secured import run_with_tls
from tests.programs.rocketmq.mqadmin.patient import PatientAdmin
from tools.harness.ports import unused_address
from tools.harness.rocketmq.servers import run_servers


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
    (tmp_path / "conf" / "tools.yml").write_text(
        "# for tools\naccessKey: 'rocketmq2'\nsecretKey: \"12345678\"\n"
    )
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    config = config_of(Given({"client-opt": "vip_channel_enabled\0connect_timeout,7s"}))
    assert (config.access_key, config.secret_key) == ("rocketmq2", "12345678")
    assert (config.vip_channel_enabled, config.connect_timeout) == (True, 7.0)
    with pytest.raises(ConfigError, match="nosuch"):
        config_of(Given({"client-opt": "nosuch,1"}))
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path / "none"))
    assert config_of(Given()).access_key == ""


def test_access_rules_are_changed_by_an_account_that_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(admin, "Admin", PatientAdmin)
    (tmp_path / "conf").mkdir()
    (tmp_path / "plain_acl.yml").write_text(
        "accounts:\n  - accessKey: the-admin\n    secretKey: secret-1\n    admin: true\n"
    )
    rules = {"aclEnable": "true", "nsqOpen": "true", "aclDirectory": tmp_path}
    with run_servers(**rules) as servers:
        address = servers.broker.rocketmq
        assert run(["getAclConfig", "--json", "-b", address]) == 1
        assert json.loads(capsys.readouterr().out)["code"] == 16
        tools = tmp_path / "conf" / "tools.yml"
        tools.write_text("accessKey: the-admin\nsecretKey: secret-1\n")
        monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
        account = ["-a", "another1", "-s", "secret-2", "-t", "a=PUB,b=DENY"]
        assert run(["updateAclConfig", "--json", "-b", address, *account]) == 0
        capsys.readouterr()
        assert run(["getAclConfig", "--json", "-b", address]) == 0
        found = capsys.readouterr().out
        assert "secret-" not in found
        by_key = {each["accessKey"]: each for each in json.loads(found)[address]["accounts"]}
        assert by_key["another1"]["topicPerms"] == ["a=PUB", "b=DENY"]
        assert by_key["the-admin"]["admin"]


def test_servers_that_speak_tls_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(admin, "Admin", PatientAdmin)
    with run_with_tls(tmp_path) as (servers, config):
        options = ["tls_enable,true", f"tls_trust_cert_path,{config.tls_trust_cert_path}"]
        words = [word for each in options for word in ("--client-opt", each)]
        assert run(["clusterList", "--json", "-n", servers.address, *words]) == 0
        assert json.loads(capsys.readouterr().out)["brokers"][0]["version"] == "V4_9_8"
