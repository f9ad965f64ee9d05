"""What nsqadmin reads: bodies of requests, and what the nodes of a cluster answer."""

from __future__ import annotations

import base64
import json
from contextlib import suppress

import msgspec

from penstock.admin.actions_api import read_strings
from penstock.admin.history.history import History
from penstock.admin.history.sample import answer_type, sample_of
from penstock.admin.pipelines.pipelines_api import (
    PIPELINES_MAX,
    NodePipelines,
    PipelineHistory,
    whole_pipelines,
)
from penstock.cluster.figures import ReportedNode, figures_of
from penstock.cluster.groups import NodeGroups, whole_groups
from penstock.cluster.producers import (
    AdvertisedProducers,
    distinct_by_http_address,
    merged_by_tcp_address,
    parse_version,
)
from penstock.cluster.stats import NodeStats, Place, settled, whole_channel, whole_topic
from penstock.core.gojson import dumps
from penstock.core.malformed import MALFORMED

from . import Target

_PLACE = Place("n:1", "h")


def bodies(data: bytes) -> None:
    """Strings that can be written again, or one line of Go's."""
    try:
        found = read_strings(data, ("topic", "channel"))
    except ValueError as error:
        assert "\n" not in str(error)
        return
    for text in found:
        text.encode()


def stats(data: bytes) -> None:
    """Any /stats can be summed up and shown, or is refused as a whole."""
    with suppress(*MALFORMED):
        figures_of("n:1", 1, msgspec.json.decode(data, type=ReportedNode))
    try:
        read = msgspec.json.decode(data, type=NodeStats)
    except MALFORMED:
        return
    topics = settled(read, _PLACE, "", 0)
    whole = whole_topic("t", topics)
    assert whole.message_count == sum(each.message_count for each in topics)
    channels = [each for topic in topics for each in topic.channels or ()]
    shown = dumps(whole) + (dumps(whole_channel("c", channels)) if channels else b"")
    assert b"<" not in shown
    json.loads(dumps(whole))


def looks(data: bytes) -> None:
    """Any /stats has a history, or is refused as a whole."""
    try:
        sample = sample_of(msgspec.json.decode(data, type=answer_type(data)))
    except MALFORMED:
        return
    history = History(10)
    for time in (1.0, 11.0):
        history.take(time, [("n", sample), ("m", sample)])
    assert history.now.shape[1] == len(history.sums)


def groups(data: bytes) -> None:
    """The groups of any /stats add up over nodes."""
    try:
        told = msgspec.json.decode(data, type=NodeGroups)
    except MALFORMED:
        return
    found = whole_groups([("n:1", told), ("m:1", told)])
    assert all(each.lag == sum(node.lag for node in each.nodes) for each in found)
    json.loads(dumps({"groups": found}))


def pipelines(data: bytes) -> None:
    """Whatever nodes tell of pipelines is put together and has a past."""
    try:
        told = msgspec.json.decode(data, type=NodePipelines)
    except MALFORMED:
        return
    found = whole_pipelines([("n:1", told), ("m:1", told)])
    past = PipelineHistory(10)
    past.take(1, found)
    assert all(past.trend(each["id"]) for each in found[:PIPELINES_MAX])
    json.loads(dumps({"pipelines": found}))


def nodes(data: bytes) -> None:
    """Any list of nodes can be put together with itself."""
    try:
        told = msgspec.json.decode(data, type=AdvertisedProducers)
    except MALFORMED:
        return
    found = merged_by_tcp_address([("l", told), ("k", told)])
    assert len(distinct_by_http_address([("l", told)])) <= len(told.producers or ())
    for each in found:
        assert parse_version(each.version) >= parse_version("0.0.0-0") or each.out_of_date
    dumps({"nodes": found})


_LATENCY = b'"e2e_processing_latency":{"count":2,"percentiles":[{"quantile":0.99,"value":1.5}]}'
_STATS = (
    b'{"topics":[{"topic_name":"t","channels":[{"channel_name":"c","depth":9,"message_count":3,'
    b'"clients":[{"client_id":"<x>","connect_ts":1}],%s}],"message_count":5,%s}],"memory":{}}'
    % (_LATENCY, _LATENCY)
)
_GROUPS = (
    b'{"topics":[{"topic_name":"t","consumer_groups":[{"group_name":"g","lag":1,"rate":2.5,'
    b'"committed":{"0":1,"1":2},"client_count":1,"clients":null}],"log_groups":[{"group_name":'
    b'"g","committed":{"0":3},"lag":4,"rate":0.5}]}]}'
)
_PACKED = (
    b'{"packed":"%s","figures":["depth","backend_depth","in_flight_count","deferred_count",'
    b'"message_count","requeue_count","timeout_count","client_count","paused"],"topics":["t"],'
    b'"channels":[["c"]],"latencies":[[1,[[0.99,1.5]]]],"groups":[{"topic_name":"t","log_groups":'
    b'[{"group_name":"g","lag":4,"rate":0.5}]}],"version":"1.3.0"}'
    % base64.b64encode(bytes(range(144)))
)
_WORDS = [b"null", b"[]", b"{}", b"[", b"]", b"{", b"}", b",", b"-1", b"1e308", b"NaN", b"true",
          b'"depth":', b'"\\ud800"', b'"quantile":', b"9223372036854775808"]  # fmt: skip
TARGETS = {
    "admin_bodies": Target(
        bodies,
        [b'{"topic":"t","channel":"c"} x', b'{"TOPIC":null}', b'{"action":"pause"}', b" [1]"],
        _WORDS,
    ),
    "admin_stats": Target(stats, [_STATS, b'{"topics":null}'], _WORDS),
    "admin_looks": Target(looks, [_STATS, _PACKED, _GROUPS, b'{"topics":[{}]}'], _WORDS),
    "admin_groups": Target(groups, [_GROUPS], _WORDS),
    "admin_pipelines": Target(
        pipelines,
        [
            b'{"pipelines":[{"id":"1f","name":"n","state":"running","groups":[["t","g"]],"lag":5,'
            b'"age":31.5,"error":"e","error_at":1.5,"lag_is_here":true,"read_per_s":2.5}]}'
        ],
        _WORDS,
    ),
    "admin_nodes": Target(
        nodes,
        [
            b'{"producers":[{"hostname":"h","broadcast_address":"::1","tcp_port":1,"http_port":2,'
            b'"version":"1.3.0-x.1+b","topics":["b","a"],"tombstones":[true]},{"version":"weird"}]}'
        ],
        _WORDS,
    ),
}
