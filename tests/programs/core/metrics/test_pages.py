"""Every metric is on the page of its program, and when that is ready."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.core.metrics import mqbroker as of_mqbroker
from penstock.core.metrics import mqnamesrv as of_mqnamesrv
from penstock.core.metrics import node, process
from penstock.core.metrics import nsqadmin as of_nsqadmin
from penstock.core.metrics import nsqd as of_nsqd
from penstock.core.metrics import nsqlookupd as of_nsqlookupd
from penstock.rocketmq.client.blocking import Producer
from penstock.rocketmq.client.message import Message
from penstock.testing.daemons import (
    run_mqbroker,
    run_mqnamesrv,
    run_nsqadmin,
    run_nsqd,
    run_nsqlookupd,
)
from tests.metrics_pages import Page, ask, missing, page_of, until
from tests.programs.nsq.nsqd.auth_server import run_auth_server
from tools.harness.ports import unused_address
from tools.harness.rocketmq.servers import QUICK, make_topic, wait_for_route


def test_the_page_has_all_of_a_process() -> None:
    with run_nsqlookupd("--metrics") as lookupd:
        page = page_of(lookupd.http, "nsqlookupd")
    assert not missing(page, process.LIST.metrics)
    assert page[process.READY.name].value() == 1


# --- Every metric of a node is on the page of a node that has something to show ------------------


_ROCKETMQ = {node.GROUP_LAG.name, node.GROUP_RATE.name, node.GROUP_MEMBERS.name}


def test_the_page_has_all_of_a_node(tmp_path: Path) -> None:
    flags = ("--metrics", "--e2e-processing-latency-percentile=0.5")
    with run_nsqd(*flags, data_path=tmp_path / "data") as nsqd:
        ask(nsqd.http, "/topic/create?topic=t", b"")
        ask(nsqd.http, "/channel/create?topic=t&channel=c", b"")
        ask(nsqd.http, "/log/commit?topic=t&group=g", b'{"offsets":{"0":0}}')
        page = page_of(nsqd.http, "nsqd")
    assert missing(page, node.LIST.metrics) == _ROCKETMQ, "groups need RocketMQ's port"
    size, free = page[node.DISK_SIZE.name].value(), page[node.DISK_FREE.name].value()
    assert 0 < free <= size


# --- Every metric of NSQ's ports is on the page of an nsqd; and when an nsqd is ready ------------


PIPELINE = {"id": "1", "name": "p", "state": "running"}


def test_the_page_has_all_of_nsqs_ports() -> None:
    with run_auth_server() as auth, run_nsqd(
        "--metrics", f"--auth-http-address={auth.address}"
    ) as nsqd:  # fmt: skip
        assert ask(nsqd.http, "/pipelines", json.dumps(PIPELINE).encode())[0] == 200
        page = page_of(nsqd.http, "nsqd")
    assert not missing(page, of_nsqd.LIST.metrics)


def test_ready_means_registered_once_and_stays_when_the_directory_goes() -> None:
    address = unused_address()
    with run_nsqd("--metrics", f"--lookupd-tcp-address={address}") as nsqd:
        waiting = (503, f"NOK - not registered at any nsqlookupd yet: {address}")
        assert until(lambda: ask(nsqd.http, "/ready") == waiting)
        assert ask(nsqd.http, "/ping") == (200, "OK")
        assert page_of(nsqd.http, "nsqd")[process.READY.name].value() == 0
        with run_nsqlookupd(f"--tcp-address={address}"):
            assert until(lambda: ask(nsqd.http, "/ready") == (200, "OK"))
            assert until(lambda: page_of(nsqd.http, "nsqd")[
                of_nsqd.LOOKUPDS_CONNECTED.name].value() == 1)  # fmt: skip
        assert until(lambda: _connected(nsqd.http) == 0)
        assert ask(nsqd.http, "/ready") == (200, "OK")


def _connected(address: str) -> float:
    ask(address, "/topic/create?topic=noticed", b"")  # a command that finds the connection closed
    ask(address, "/topic/delete?topic=noticed", b"")
    page = page_of(address, "nsqd")
    assert page[of_nsqd.LOOKUPDS.name].value() == 1
    return page[of_nsqd.LOOKUPDS_CONNECTED.name].value()


def test_the_page_has_the_whole_list_and_follows_what_is_registered() -> None:
    with run_nsqlookupd("--metrics") as lookupd:
        ask(lookupd.http, "/topic/create?topic=nobodys", b"")
        with run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as nsqd:
            ask(nsqd.http, "/topic/create?topic=t", b"")
            ask(nsqd.http, "/channel/create?topic=t&channel=c", b"")
            assert until(
                lambda: page_of(lookupd.http, "nsqlookupd")[of_nsqlookupd.CHANNELS.name].value()
            )
            ask(lookupd.http, "/lookup?topic=t")
            ask(lookupd.http, "/lookup?topic=unknown")

            def hidden() -> Page:
                node = f"127.0.0.1:{nsqd.http_port}"
                ask(lookupd.http, f"/topic/tombstone?topic=t&node={node}", b"")
                page = page_of(lookupd.http, "nsqlookupd")
                return page if page[of_nsqlookupd.TOMBSTONES.name].value() else {}

            page = until(hidden)  # a slow answer makes nsqd connect again, and not be hidden
        gone = page[of_nsqlookupd.PRODUCERS_GONE.name].value()
        assert until(lambda: page_of(lookupd.http, "nsqlookupd")[
            of_nsqlookupd.PRODUCERS_GONE.name].value() > gone)  # fmt: skip
    assert not missing(page, of_nsqlookupd.LIST.metrics)
    others = (of_nsqlookupd.LOOKUPS.name, of_nsqlookupd.PRODUCERS_GONE.name)
    figures = {name: found.value() for name, found in page.items()
               if name.startswith("nsqlookupd") and name not in others}  # fmt: skip
    assert figures == {
        of_nsqlookupd.PRODUCERS.name: 1,
        of_nsqlookupd.SILENT_PRODUCERS.name: 0,
        of_nsqlookupd.TOPICS.name: 2,
        of_nsqlookupd.CHANNELS.name: 1,
        of_nsqlookupd.EMPTY_TOPICS.name: 2,
        of_nsqlookupd.TOMBSTONES.name: 1,
        of_nsqlookupd.CONNECTIONS.name: 1,
    }
    assert page[of_nsqlookupd.LOOKUPS.name].value(found="true") == 1
    assert page[of_nsqlookupd.LOOKUPS.name].value(found="false") == 1


def test_unless_asked_for_there_are_no_metrics_but_it_is_ready() -> None:
    with run_nsqlookupd() as lookupd:
        assert ask(lookupd.http, "/metrics")[0] == 404
        assert ask(lookupd.http, "/ready") == (200, "OK")


def test_the_page_has_the_whole_list_and_counts_nodes_that_do_not_answer() -> None:
    silent, endpoint = unused_address(), unused_address()
    with run_nsqd() as nsqd, run_nsqadmin(
        "--metrics", f"--nsqd-http-address={nsqd.http}", f"--nsqd-http-address={silent}",
        f"--notification-http-endpoint=http://{endpoint}", "--http-client-connect-timeout=1m",
        "--http-client-request-timeout=1m",
    ) as admin:  # fmt: skip
        ask(nsqd.http, "/topic/create?topic=t", b"")
        assert until(lambda: ask(admin.http, "/ready") == (200, "OK"))
        ask(admin.http, "/api/topics/t", b'{"action":"pause"}')
        assert until(lambda: page_of(admin.http, "nsqadmin")[
            of_nsqadmin.NOTIFICATION_FAILURES.name].value() == 1)  # fmt: skip
        page = page_of(admin.http, "nsqadmin")
    assert not missing(page, of_nsqadmin.LIST.metrics)
    assert page[of_nsqadmin.NODES.name].value() == 1
    assert page[of_nsqadmin.FAILURES.name].value() == 1
    assert page[of_nsqadmin.NOTIFICATIONS.name].value() == 1
    assert page[process.READY.name].value() == 1


def test_without_a_history_it_is_ready_at_once() -> None:
    flags = ("--metrics", f"--nsqd-http-address={unused_address()}", "--history-interval=0")
    with run_nsqadmin(*flags) as admin:
        assert ask(admin.http, "/ready") == (200, "OK")
        assert of_nsqadmin.LOOKS.name not in page_of(admin.http, "nsqadmin")


def test_the_page_has_the_whole_list_and_a_registered_broker_makes_it_ready() -> None:
    address = unused_address()
    with run_mqnamesrv(monitoringAddress=address) as name_server:
        waiting = "NOK - no broker has registered within 45 s of the start yet"
        assert ask(address, "/ready") == (503, waiting)
        with run_mqbroker(
            name_server=name_server.rocketmq, registerBrokerTimeoutMills=60_000
        ) as broker:
            assert until(lambda: ask(address, "/ready") == (200, "OK"))
            page = page_of(address, "mqnamesrv")
            broker.kill()
            assert until(lambda: _gone(address) == 1)
        assert ask(address, "/ready") == (200, "OK")
        assert ask(address, "/ping") == (200, "OK")
    assert not missing(page, of_mqnamesrv.LIST.metrics)
    assert page[of_mqnamesrv.BROKERS.name].value() == page[of_mqnamesrv.CLUSTERS.name].value() == 1
    assert page[of_mqnamesrv.TOPICS.name].value() > 0
    assert page[of_mqnamesrv.REGISTRATIONS.name].value() >= 1


def _gone(address: str) -> float:
    return page_of(address, "mqnamesrv")[of_mqnamesrv.BROKERS_GONE.name].value(reason="connection")


def test_both_ports_show_the_whole_list() -> None:
    address = unused_address()
    with run_mqnamesrv() as name_server, run_mqbroker(
        name_server=name_server.rocketmq, monitoringAddress=address,
        registerBrokerTimeoutMills=60_000,
    ) as broker:  # fmt: skip
        make_topic(broker, "t")
        wait_for_route(name_server.rocketmq, "t")
        with Producer("p", name_server.rocketmq, config=QUICK) as producer:
            producer.send(Message("t", b"one"))
        assert ask(address, "/ready") == (200, "OK")
        page = page_of(address, "mqbroker")
        assert page.keys() == page_of(broker.http, "mqbroker").keys()
    assert not missing(page, of_mqbroker.LIST.metrics)
    assert page[of_mqbroker.PUT_MESSAGES.name].value() == 1
    assert page[of_mqbroker.NAME_SERVERS_CONNECTED.name].value() == 1
    assert page[node.TOPIC_MESSAGES.name].value(topic="t") == 1


def test_ready_means_registered_at_a_name_server() -> None:
    address, name_server = unused_address(), unused_address()
    with run_mqbroker(name_server=name_server, monitoringAddress=address):
        waiting = f"NOK - not registered at any name server yet: {name_server}"
        assert ask(address, "/ready") == (503, waiting)
        assert ask(address, "/ping") == (200, "OK")
        with run_mqnamesrv(listenPort=name_server.rpartition(":")[2]):
            assert until(lambda: ask(address, "/ready") == (200, "OK"))
