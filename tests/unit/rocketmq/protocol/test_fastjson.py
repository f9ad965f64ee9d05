"""JSON with keys that JSON does not know."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue

QUEUE = MessageQueue("b-a", 0, "T")


def test_writing_as_the_java_classes_do() -> None:
    stats = {"topicPutTps": 0.0, "offsetTable": {QUEUE: {"minOffset": 0, "maxOffset": 5}}}
    assert fastjson.dumps(stats).decode() == (
        '{"offsetTable":{{"brokerName":"b-a","queueId":0,"topic":"T"}:{"maxOffset":5,"minOffset":0}},'
        '"topicPutTps":0.0}'
    )
    addresses = {"brokerAddrs": {0: "1.1.1.1:10911", 1: "1.1.1.2:10911"}, "zone": None}
    assert fastjson.dumps(addresses) == b'{"brokerAddrs":{0:"1.1.1.1:10911",1:"1.1.1.2:10911"}}'
    assert fastjson.dumps(addresses, quoted_keys=True) == (
        b'{"brokerAddrs":{"0":"1.1.1.1:10911","1":"1.1.1.2:10911"}}'
    )
    assert fastjson.dumps([1e999, 1.5]) == b"[null,1.5]"
    assert fastjson.dumps({"a": True, "b": [], "c": {}}) == b'{"a":true,"b":[],"c":{}}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"x",-1:"y"}', {0: "x", -1: "y"}),
        ("{'groupName':'x'}", {"groupName": "x"}),
        ("{groupName:'x', unitMode:'1'}\n", {"groupName": "x", "unitMode": "1"}),
        ('{{"queueId":0,"topic":"T"}:7}', {(("queueId", 0), ("topic", "T")): 7}),
        ('{"a":{{"$ref":"$.b"}:1},}', {"a": {(("$ref", "$.b"),): 1}}),
        ('{0:[1,2.5,true,null,"a\\u00e4\\x41\\n\\/"]}', {0: [1, 2.5, True, None, "aäA\n/"]}),
        ("[1,{2:3}]", [1, {2: 3}]),
        ("{1.5:1}", {"1.5": 1}),
        ("{{1:2,'1':'x'}:3}", {(("1", 2), ("1", "x")): 3}),
    ],
)
def test_reading_what_fastjson_reads(text: str, value: Any) -> None:
    assert fastjson.loads(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    ["", "{", "{0:1", "{0 1}", "{:1}", "[1 2]", "nope", "{'a}", '{0:"\\u12"}', "{0:1}x",
     "{0:" * 200, "[" * 100_000, "{{{0:1}:1}:", "{" * 5000, "[" * 150 + "]" * 150],
)  # fmt: skip
def test_what_nobody_reads(text: str) -> None:
    with pytest.raises(BodyError, match="JSON that"):
        fastjson.loads(text.encode())


def test_text_that_is_no_utf8_is_read_where_that_is_wished() -> None:
    for broken in (b"{0:'\xff'}", b'{"\xf3":1}'):
        with pytest.raises(BodyError, match="UTF-8"):
            fastjson.loads(broken)
    assert fastjson.loads_leniently(b"{0:'\xff'}") == {0: "\ufffd"}


def test_int_keys() -> None:
    assert fastjson.int_keys({"0": 1, 2: 3}) == {0: 1, 2: 3}
    odd: list[Any] = [[], {"x": 1}, {(("a", 1),): 1}]
    for value in odd:
        with pytest.raises(BodyError):
            fastjson.int_keys(value)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(values)
def test_standard_values_are_standard_json(value: Any) -> None:
    def without_nulls(item: Any) -> Any:
        if isinstance(item, dict):
            return {k: without_nulls(v) for k, v in item.items() if v is not None}
        return [without_nulls(each) for each in item] if isinstance(item, list) else item

    written = fastjson.dumps(value)
    assert json.loads(written) == without_nulls(value)
    assert fastjson.loads(written) == without_nulls(value)


@given(st.text(st.sampled_from("{}[]:,'\"0a\\u "), max_size=30))
def test_garbage_raises_nothing_else(text: str) -> None:
    with contextlib.suppress(BodyError):
        fastjson.loads(text.encode())
