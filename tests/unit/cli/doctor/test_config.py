"""Each fault of a configuration file is found, and a right one has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.doctor.config import examine_config
from penstock.cli.doctor.report import Report


def examined(tmp_path: Path, name: str, text: str) -> Report:
    file = tmp_path / name
    file.write_text(text.replace("TMP", str(tmp_path)))
    return examine_config(file)


@pytest.mark.parametrize(
    ("name", "text", "program"),
    [
        ("nsqd.toml", 'tcp_address = "127.0.0.1:4150"\nmsg_timeout = "30s"\ndata_path = "TMP"',
         "nsqd"),
        ("nsqd.cfg", 'nsqlookupd_tcp_addresses = [\n    "127.0.0.1:4160"\n]\ndata_path = "TMP"',
         "nsqd"),
        ("admin.conf", '# nsqadmin\nnsqd_http_addresses = ["127.0.0.1:4151"]', "nsqadmin"),
        ("look.toml", 'tombstone_lifetime = "45s"\nhttp_address = ":4161"', "nsqlookupd"),
        ("admin.toml", 'nsqlookupd_http_addresses = ["127.0.0.1:4161"]', "nsqadmin"),
        ("notepad.toml", '\ufefftombstone_lifetime = "45s"\nhttp_address = ":4161"', "nsqlookupd"),
        ("broker.conf", "listenPort=10911\nbrokerName=a\nflushDiskType=SYNC_FLUSH", "mqbroker"),
        ("names.conf", "listenPort=9876\norderMessageEnable=true", "mqnamesrv"),
    ],
)  # fmt: skip
def test_a_right_file_has_no_finding(tmp_path: Path, name: str, text: str, program: str) -> None:
    report = examined(tmp_path, name, text)
    assert report.findings == []
    assert report.checked == [f"configuration {tmp_path / name} of {program}"]


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [
        ("a.toml", 'tcp_adress = ":4150"', "config-key", "did you mean tcp_address?"),
        ("a.toml", 'msg_timeout = "1day"', "config-value", "msg_timeout = '1day': "),
        ("a.toml", "max_deflate_level = 12", "config-value", "--max-deflate-level must be [1,9]"),
        ("a.toml", 'msg_timeout = "20m"', "time-outs", "max_msg_timeout 15m0s"),
        ("a.toml", 'data_path = "TMP/no"', "no-data-path", "is no directory"),
        ("a.toml", f'data_path = "TMP/{"n" * 300}"', "unreadable", "reached: file name too long"),
        ("a.toml", 'tls_cert = "TMP/no.pem"\ntls_key = "TMP/no.key"', "config-value", "no.pem"),
        ("a.toml", 'tcp_address = "4150"', "config-value", "tcp_address: address 4150: missing"),
        ("a.toml", 'replication_secret_file = "TMP/no"', "config-value", "TMP/no: No such file"),
        ("a.toml", 'rocketmq_address = ":0"\nrocketmq_config = "TMP/no"', "config-value", "TMP/no"),
        (
            "a.toml",
            'rocketmq_address = ":0"\nauth_http_addresses = ["127.0.0.1:1"]',
            "config-value",
            "opens to everybody what --auth-http-address closes",
        ),
        (
            "a.toml",
            'nsqlookupd_http_addresses = [":1"]\nnsqd_http_addresses = [":2"]',
            "config-value",
            "use --nsqd-http-address or --lookupd-http-address not both",
        ),
        ("a.toml", "tcp_address = :4150", "config", "Invalid value"),
        ("nsqd.cfg", 'tcp_address = ":4150"\ndata_pth = "TMP"', "config-key", "mean data_path?"),
        ("nsqd.cfg", "tcp_address = :4150", "config", "Invalid value"),
        ("a.toml", "a=" + "[" * 100_000, "config", "recursion"),
        ("a.conf", "listenprot=1", "config-key", "did you mean listenPort?"),
        ("a.conf", "listenPort=x", "config-value", "listenPort must be a number, not 'x'"),
        (
            "a.conf",
            "kvConfigPath=TMP/kv\norderMesageEnable=true",
            "config-key",
            "did you mean orderMessageEnable?",
        ),
        (
            "a.conf",
            "kvConfigPath=TMP/kv\ntls.server.mode=on",
            "config-value",
            "tls.server.mode must be disabled, permissive or enforcing",
        ),
        ("a.conf", "brokerName=\\u00", "config-value", "\\u"),
        ("a.conf", "brokerRole=SLAVE", "config-value", "a brokerId greater than 0"),
    ],
)
def test_a_fault_is_found_alone(tmp_path: Path, name: str, text: str, code: str, said: str) -> None:
    report = examined(tmp_path, name, text)
    assert [each.code for each in report.findings] == [code]
    assert said.replace("TMP", str(tmp_path)) in report.findings[0].what
    assert report.findings[0].remedy


def test_a_file_that_is_not_there_is_found(tmp_path: Path) -> None:
    report = examine_config(tmp_path / "no.toml")
    assert [(each.code, each.what) for each in report.findings] == [
        ("config", f"no such file or directory: '{tmp_path / 'no.toml'}'")
    ]


def test_a_secret_is_not_repeated(tmp_path: Path) -> None:
    report = examined(tmp_path, "a.toml", 'statsd_interval = "http://me:hush@host"')
    assert "hush" not in report.findings[0].what
