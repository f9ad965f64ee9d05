"""The name server's answers to each request code (RocketMQ spec 2.6)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from penstock.rocketmq import config_file
from penstock.rocketmq.namesrv.kv_config import ORDER_TOPICS, KvConfig
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from penstock.rocketmq.namesrv.routes import EXPIRY_MS, BrokerIdentity, Routes
from penstock.rocketmq.protocol import fastjson, registration
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.files.disk import Disk

if TYPE_CHECKING:
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqnamesrv")

_STANDARD_JSON_SINCE: Final = 401  # V4_9_4: such clients read routes as standard JSON
_NO_ROUTE = (
    "No topic route info in name server for the topic: {}\n"
    "See http://rocketmq.apache.org/docs/faq/ for further details."
)
_Answerer = Callable[["Processor", "Connection", Command], Command]
ANSWERED: Final[dict[int, _Answerer]] = {}
"""The answerer of each code."""


def _answers(*codes: RequestCode) -> Callable[[_Answerer], _Answerer]:
    def register(answerer: _Answerer) -> _Answerer:
        ANSWERED.update(dict.fromkeys(codes, answerer))
        return answerer

    return register


class Processor:
    """The handler of the name server's connections."""

    def __init__(self, settings: NamesrvSettings, routes: Routes, kv: KvConfig, disk: Disk) -> None:
        self._settings = settings
        self._disk = disk
        self._routes = routes
        self._kv = kv

    def handle(self, connection: Connection, request: Command) -> Command:
        answerer = ANSWERED.get(request.code)
        if answerer is None:
            return request.unsupported()
        return answerer(self, connection, request)

    def connected(self, connection: Connection) -> None:
        logger.debug("%s connected", connection.address)

    def disconnected(self, connection: Connection) -> None:
        for address in self._routes.disconnected(connection):
            logger.warning("the broker at %s is gone: its connection ended", address)

    # --- stored values -------------------------------------------------------------------------

    @_answers(RequestCode.PUT_KV_CONFIG)
    def _put_kv(self, connection: Connection, request: Command) -> Command:
        namespace, key = request.text("namespace"), request.text("key")
        if request.ext is None or "value" not in request.ext:
            raise BodyError("the field value is missing")
        self._kv.put(namespace, key, request.ext["value"])
        return request.answer()

    @_answers(RequestCode.GET_KV_CONFIG)
    def _get_kv(self, connection: Connection, request: Command) -> Command:
        namespace, key = request.text("namespace"), request.text("key")
        value = self._kv.get(namespace, key)
        if value is None:
            remark = f"No config item, Namespace: {namespace} Key: {key}"
            # Java sends the fields' object even if it is empty.
            return request.answer(ResponseCode.QUERY_NOT_FOUND, remark, ext={})
        return request.answer(ext={"value": value})

    @_answers(RequestCode.DELETE_KV_CONFIG)
    def _delete_kv(self, connection: Connection, request: Command) -> Command:
        self._kv.delete(request.text("namespace"), request.text("key"))
        return request.answer()

    @_answers(RequestCode.GET_KVLIST_BY_NAMESPACE)
    def _get_kv_list(self, connection: Connection, request: Command) -> Command:
        namespace = request.text("namespace")
        values = self._kv.namespace(namespace)
        if values is None:
            remark = f"No config item, Namespace: {namespace}"
            return request.answer(ResponseCode.QUERY_NOT_FOUND, remark)
        return _body(request, {"table": values})

    # --- brokers -------------------------------------------------------------------------------

    @_answers(RequestCode.REGISTER_BROKER)
    def _register_broker(self, connection: Connection, request: Command) -> Command:
        who = _who(request)
        body = bytes(request.body)
        checksum = request.int64("bodyCrc32", 0)
        # Java's checksum is without its sign bit; 0 means that the broker sent none.
        if checksum and checksum != crc32(body) & 0x7FFFFFFF:
            return request.answer(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        read = (
            registration.decode_compressed if request.boolean("compressed") else registration.decode
        )
        is_new = who.address not in self._routes.live
        master, master_ha = self._routes.register(
            who, read(body), connection, request.int64("heartbeatTimeoutMillis", EXPIRY_MS)
        )
        if is_new:
            logger.info(
                "new broker %s at %s, id %d of cluster %s",
                who.name,
                who.address,
                who.id,
                who.cluster,
            )
        ext = {"masterAddr": master, "haServerAddr": master_ha}
        answer = request.answer(ext={name: value for name, value in ext.items() if value})
        orders = self._kv.namespace(ORDER_TOPICS)
        if orders is not None and self._settings.return_order_topic_config_to_broker:
            answer.body = fastjson.dumps({"table": orders})
        return answer

    @_answers(RequestCode.UNREGISTER_BROKER)
    def _unregister_broker(self, connection: Connection, request: Command) -> Command:
        who = _who(request)
        self._routes.unregister(who.address)
        logger.info("the broker %s at %s has left", who.name, who.address)
        return request.answer()

    @_answers(RequestCode.QUERY_DATA_VERSION)
    def _query_data_version(self, connection: Connection, request: Command) -> Command:
        asked = fastjson.loads(request.body) if request.body else {}
        version = asked if isinstance(asked, dict) else {}
        changed, known = self._routes.query_version(_who(request).address, version)
        answer = request.answer(ext={"changed": str(changed).lower()})
        if known is not None:
            answer.body = fastjson.dumps(known)
        return answer

    @_answers(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
    def _wipe_write_permission(self, connection: Connection, request: Command) -> Command:
        count = self._routes.wipe_write_permission(request.text("brokerName"))
        return request.answer(ext={"wipeTopicCount": str(count)})

    @_answers(RequestCode.ADD_WRITE_PERM_OF_BROKER)
    def _add_write_permission(self, connection: Connection, request: Command) -> Command:
        count = self._routes.add_write_permission(request.text("brokerName"))
        return request.answer(ext={"addTopicCount": str(count)})

    @_answers(RequestCode.GET_BROKER_CLUSTER_INFO)
    def _cluster_info(self, connection: Connection, request: Command) -> Command:
        return _body(request, self._routes.cluster_info())

    # --- topics --------------------------------------------------------------------------------

    @_answers(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    def _route(self, connection: Connection, request: Command) -> Command:
        topic = request.text("topic")
        route = self._routes.route(topic)
        if route is None:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, _NO_ROUTE.format(topic))
        # Java puts the order of a topic into its route only if the name server is told so.
        if self._settings.order_message_enable:
            route["orderTopicConf"] = self._kv.get(ORDER_TOPICS, topic)
        # Clients before 4.9.4 get the keys of fastjson: numbers without quotes.
        standard = request.version >= _STANDARD_JSON_SINCE
        quoted = standard or request.boolean("acceptStandardJsonOnly")
        return request.answer(body=fastjson.dumps(route, quoted_keys=quoted))

    @_answers(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    def _all_topics(self, connection: Connection, request: Command) -> Command:
        return _topics(request, list(self._routes.topics))

    @_answers(RequestCode.DELETE_TOPIC_IN_NAMESRV)
    def _delete_topic(self, connection: Connection, request: Command) -> Command:
        self._routes.delete_topic(request.text("topic"))
        return request.answer()

    @_answers(RequestCode.GET_TOPICS_BY_CLUSTER)
    def _topics_by_cluster(self, connection: Connection, request: Command) -> Command:
        return _topics(request, self._routes.topics_of_cluster(request.text("cluster")))

    @_answers(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    def _system_topics(self, connection: Connection, request: Command) -> Command:
        names, address = self._routes.system_topics()
        return _body(request, {"topicList": names, "brokerAddr": address})

    @_answers(RequestCode.GET_UNIT_TOPIC_LIST)
    def _unit_topics(self, connection: Connection, request: Command) -> Command:
        return _topics(request, self._routes.unit_topics())

    @_answers(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)
    def _unit_subscribed(self, connection: Connection, request: Command) -> Command:
        return _topics(request, self._routes.unit_subscribed_topics())

    @_answers(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
    def _only_unit_subscribed(self, connection: Connection, request: Command) -> Command:
        return _topics(request, self._routes.only_unit_subscribed_topics())

    # --- its own configuration -----------------------------------------------------------------

    @_answers(RequestCode.UPDATE_NAMESRV_CONFIG)
    def _update_config(self, connection: Connection, request: Command) -> Command:
        values = config_file.asked(request.body)
        fixed = self._settings.fixed_names()
        if fixed & values.keys():
            text = "Can not update config in black list."
            return request.answer(ResponseCode.NO_PERMISSION, text)
        path = self._settings.config_store_path
        known, unknown = config_file.apply(self._disk, path, self._settings, values, fixed)
        for name in unknown:
            logger.warning("%s set the unknown property %s", connection.address, name)
        if known:
            shown = " ".join(f"{name}={value}" for name, value in known.items())
            logger.info("%s set %s", connection.address, shown)
        return request.answer()

    @_answers(RequestCode.GET_NAMESRV_CONFIG)
    def _get_config(self, connection: Connection, request: Command) -> Command:
        return request.answer(body=self._settings.as_text().encode())


def _who(request: Command) -> BrokerIdentity:
    return BrokerIdentity(
        request.text("clusterName"),
        request.text("brokerName"),
        request.text("brokerAddr"),
        request.int64("brokerId"),
        request.optional("haServerAddr") or "",
    )


def _body(request: Command, value: Any) -> Command:
    return request.answer(body=fastjson.dumps(value))


def _topics(request: Command, names: list[str]) -> Command:
    return _body(request, {"topicList": names})
