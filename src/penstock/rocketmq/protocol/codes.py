"""Every request and response code, as data (RocketMQ spec 2): what serves it and which fields it
has.

``COMMANDS`` is the one table: servers check required fields with it, the documentation lists it,
and a test holds each row against the conformance case that covers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal


class RequestCode(IntEnum):
    """The code of a request, which says what it asks for."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_BROKER_OFFSET = 13
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    UPDATE_AND_CREATE_TOPIC_LIST = 18
    GET_ALL_TOPIC_CONFIG = 21
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    GET_ALL_CONSUMER_OFFSET = 43
    GET_ALL_DELAY_OFFSET = 45
    CHECK_CLIENT_CONFIG = 46
    UPDATE_AND_CREATE_ACL_CONFIG = 50
    DELETE_ACL_CONFIG = 51
    GET_BROKER_CLUSTER_ACL_INFO = 52
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53
    GET_BROKER_CLUSTER_ACL_CONFIG = 54
    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_PRODUCER_CONNECTION_LIST = 204
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    GET_KVLIST_BY_NAMESPACE = 219
    RESET_CONSUMER_CLIENT_OFFSET = 220
    GET_CONSUMER_STATUS_FROM_CLIENT = 221
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
    GET_TOPICS_BY_CLUSTER = 224
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225
    QUERY_TOPIC_CONSUME_BY_WHO = 300
    QUERY_CONSUME_TIME_SPAN = 303
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
    CLEAN_EXPIRED_CONSUMEQUEUE = 306
    GET_CONSUMER_RUNNING_INFO = 307
    QUERY_CORRECTION_OFFSET = 308
    CONSUME_MESSAGE_DIRECTLY = 309
    SEND_MESSAGE_V2 = 310
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    CLONE_GROUP_OFFSET = 314
    VIEW_BROKER_STATS_DATA = 315
    CLEAN_UNUSED_TOPIC = 316
    GET_BROKER_CONSUME_STATS = 317
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    SEND_BATCH_MESSAGE = 320
    QUERY_CONSUME_QUEUE = 321
    QUERY_DATA_VERSION = 322
    RESUME_CHECK_HALF_MESSAGE = 323
    SEND_REPLY_MESSAGE = 324
    SEND_REPLY_MESSAGE_V2 = 325
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_ALL_PRODUCER_INFO = 328
    DELETE_EXPIRED_COMMITLOG = 329
    QUERY_TOPICS_BY_CONSUMER = 343
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345
    GET_TOPIC_CONFIG = 351
    GET_SUBSCRIPTIONGROUP_CONFIG = 352
    LITE_PULL_MESSAGE = 361
    QUERY_ASSIGNMENT = 400
    SET_MESSAGE_REQUEST_MODE = 401
    GET_ALL_MESSAGE_REQUEST_MODE = 402
    POP_MESSAGE = 200_050
    ACK_MESSAGE = 200_051
    PEEK_MESSAGE = 200_052
    CHANGE_MESSAGE_INVISIBLETIME = 200_053
    NOTIFICATION = 200_054
    POLLING_INFO = 200_055
    BATCH_ACK_MESSAGE = 200_151
    RECALL_MESSAGE = 370


class ResponseCode(IntEnum):
    """The result code of a response (RocketMQ spec 2.8)."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    TRANSACTION_FAILED = 4
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    POLLING_FULL = 209
    POLLING_TIMEOUT = 210
    # 4.9 has these numbers for failed changes of the access rules.
    UPDATE_AND_CREATE_ACL_CONFIG_FAILED = 209
    DELETE_ACL_CONFIG_FAILED = 210
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED = 211
    ILLEGAL_OPERATION = 604


Server = Literal["name server", "broker", "client"]


@dataclass(frozen=True, slots=True)
class CommandKind:
    """One request code: the programs that serve it, its fields, and its purpose.

    ``required`` and ``optional`` are names of ext fields, ``answers`` those of the response;
    ``on_page`` tells whether the protocol's page lists the code.
    """

    code: RequestCode
    server: Server
    purpose: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    on_page: bool = True


def _kind(
    code: RequestCode,
    server: Server,
    purpose: str,
    required: str = "",
    optional: str = "",
    answers: str = "",
    *,
    on_page: bool = True,
) -> CommandKind:
    return CommandKind(
        code,
        server,
        purpose,
        tuple(required.split()),
        tuple(optional.split()),
        tuple(answers.split()),
        on_page,
    )


_C = RequestCode
_SEND = "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag"
_SEND_MORE = "properties reconsumeTimes unitMode batch maxReconsumeTimes bname"
_SEND_V2 = "a b c d e f g h"
_SEND_V2_MORE = "i j k l m n"
_SENT = "msgId queueId queueOffset transactionId MSG_REGION TRACE_ON"
_PULL = (
    "consumerGroup topic queueId queueOffset maxMsgNums sysFlag commitOffset suspendTimeoutMillis "
    "subVersion"
)
_PULLED = "suggestWhichBrokerId nextBeginOffset minOffset maxOffset"
_BROKER = "brokerName brokerAddr clusterName"

COMMANDS: Final = (
    # Sending
    _kind(_C.SEND_MESSAGE, "broker", "send a message", _SEND, _SEND_MORE, _SENT),
    _kind(_C.SEND_MESSAGE_V2, "broker", "send a message, short field names", _SEND_V2,
          _SEND_V2_MORE, _SENT, on_page=False),
    _kind(_C.SEND_BATCH_MESSAGE, "broker", "send several messages to one queue", _SEND_V2,
          _SEND_V2_MORE, _SENT),
    _kind(_C.CONSUMER_SEND_MSG_BACK, "broker", "have a message delivered again later",
          "offset group delayLevel", "originMsgId originTopic unitMode maxReconsumeTimes"),
    _kind(_C.RECALL_MESSAGE, "broker", "take back a message that waits for its time",
          "topic recallHandle", "producerGroup", "msgId", on_page=False),
    _kind(_C.END_TRANSACTION, "broker", "commit or roll back a half message",
          "producerGroup tranStateTableOffset commitLogOffset commitOrRollback msgId",
          "fromTransactionCheck transactionId topic"),
    _kind(_C.CHECK_TRANSACTION_STATE, "client", "ask how a transaction ended",
          "tranStateTableOffset commitLogOffset", "msgId transactionId offsetMsgId"),
    _kind(_C.SEND_REPLY_MESSAGE, "broker", "answer a request message", _SEND, _SEND_MORE, _SENT,
          on_page=False),
    _kind(_C.SEND_REPLY_MESSAGE_V2, "broker", "answer a request message, short field names",
          _SEND_V2, _SEND_V2_MORE, _SENT, on_page=False),
    _kind(_C.PUSH_REPLY_MESSAGE_TO_CLIENT, "client", "hand a reply to the one who asked",
          f"{_SEND} bornHost storeHost storeTimestamp", "properties reconsumeTimes unitMode",
          on_page=False),
    # Pulling and offsets
    _kind(_C.PULL_MESSAGE, "broker", "get messages of a queue, or wait for them", _PULL,
          "subscription expressionType maxMsgBytes", _PULLED),
    _kind(_C.LITE_PULL_MESSAGE, "broker", "the same for a lite pull consumer", _PULL,
          "subscription expressionType maxMsgBytes", _PULLED, on_page=False),
    _kind(_C.QUERY_CONSUMER_OFFSET, "broker", "how far a group is in a queue",
          "consumerGroup topic queueId", "setZeroIfNotFound", "offset"),
    _kind(_C.UPDATE_CONSUMER_OFFSET, "broker", "commit how far a group is in a queue",
          "consumerGroup topic queueId commitOffset"),
    _kind(_C.SEARCH_OFFSET_BY_TIMESTAMP, "broker", "first offset stored at or after a time",
          "topic queueId timestamp", "boundaryType", "offset"),
    _kind(_C.GET_MAX_OFFSET, "broker", "the offset the next message of a queue will have",
          "topic queueId", "committed", "offset"),
    _kind(_C.GET_MIN_OFFSET, "broker", "the first offset that a queue still has",
          "topic queueId", "", "offset"),
    _kind(_C.GET_EARLIEST_MSG_STORETIME, "broker", "when the oldest message of a queue was stored",
          "topic queueId", "", "timestamp"),
    _kind(_C.GET_ALL_CONSUMER_OFFSET, "broker", "the offsets of all groups"),
    _kind(_C.GET_ALL_DELAY_OFFSET, "broker", "the offsets of the delay levels"),
    _kind(_C.GET_CONSUMER_LIST_BY_GROUP, "broker", "the live members of a group", "consumerGroup"),
    _kind(_C.LOCK_BATCH_MQ, "broker", "lock queues for orderly consumption"),
    _kind(_C.UNLOCK_BATCH_MQ, "broker", "unlock queues"),
    _kind(_C.QUERY_CORRECTION_OFFSET, "broker", "least offsets over all groups",
          "compareGroup topic", "filterGroups"),
    # Popping
    _kind(_C.POP_MESSAGE, "broker", "get messages and hide them for a time",
          "consumerGroup topic queueId maxMsgNums invisibleTime pollTime bornTime initMode",
          "expType exp order attemptId",
          "popTime invisibleTime reviveQid restNum startOffsetInfo msgOffsetInfo orderCountInfo",
          on_page=False),
    _kind(_C.ACK_MESSAGE, "broker", "a popped message is done",
          "consumerGroup topic queueId extraInfo offset", on_page=False),
    _kind(_C.BATCH_ACK_MESSAGE, "broker", "popped messages are done", on_page=False),
    _kind(_C.PEEK_MESSAGE, "broker", "look at what would be popped",
          "consumerGroup topic queueId maxMsgNums", "",
          "popTime restNum startOffsetInfo msgOffsetInfo", on_page=False),
    _kind(_C.CHANGE_MESSAGE_INVISIBLETIME, "broker", "hide a popped message for another time",
          "consumerGroup topic queueId extraInfo offset invisibleTime", "",
          "popTime invisibleTime reviveQid", on_page=False),
    _kind(_C.NOTIFICATION, "broker", "wait until there is something to pop",
          "consumerGroup topic queueId pollTime bornTime", "order attemptId",
          "hasMsg pollingFull", on_page=False),
    _kind(_C.POLLING_INFO, "broker", "how many requests wait for messages to pop",
          "consumerGroup topic queueId", "", "pollingNum", on_page=False),
    _kind(_C.QUERY_ASSIGNMENT, "broker", "how a member gets its messages, and from which queues",
          on_page=False),
    _kind(_C.SET_MESSAGE_REQUEST_MODE, "broker", "let a group pop or pull", on_page=False),
    _kind(_C.GET_ALL_MESSAGE_REQUEST_MODE, "broker", "which groups pop and which pull",
          on_page=False),
    # Clients
    _kind(_C.HEART_BEAT, "broker", "a client is alive, with its groups and subscriptions"),
    _kind(_C.UNREGISTER_CLIENT, "broker", "a client leaves a group", "clientID",
          "producerGroup consumerGroup"),
    _kind(_C.NOTIFY_CONSUMER_IDS_CHANGED, "client", "the members of a group changed",
          "consumerGroup"),
    _kind(_C.CHECK_CLIENT_CONFIG, "broker", "check a filter expression", on_page=False),
    # Topics and groups
    _kind(_C.UPDATE_AND_CREATE_TOPIC, "broker", "create or change a topic",
          "topic defaultTopic readQueueNums writeQueueNums perm topicFilterType order",
          "topicSysFlag attributes"),
    _kind(_C.UPDATE_AND_CREATE_TOPIC_LIST, "broker", "create or change several topics",
          on_page=False),
    _kind(_C.GET_ALL_TOPIC_CONFIG, "broker", "all topics and their configuration"),
    _kind(_C.DELETE_TOPIC_IN_BROKER, "broker", "delete a topic with its messages", "topic"),
    _kind(_C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "broker", "create or change a group"),
    _kind(_C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "broker", "create or change several groups",
          on_page=False),
    _kind(_C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "broker", "all groups and their configuration"),
    _kind(_C.DELETE_SUBSCRIPTIONGROUP, "broker", "delete a group", "groupName", "cleanOffset",
          on_page=False),
    _kind(_C.GET_TOPIC_STATS_INFO, "broker", "bounds and age of a topic's queues", "topic"),
    _kind(_C.GET_CONSUMER_CONNECTION_LIST, "broker", "the connections of a group's consumers",
          "consumerGroup"),
    _kind(_C.GET_PRODUCER_CONNECTION_LIST, "broker", "the connections of a group's producers",
          "producerGroup"),
    _kind(_C.GET_ALL_PRODUCER_INFO, "broker", "the connections of all producers", on_page=False),
    _kind(_C.GET_CONSUME_STATS, "broker", "offsets and rate of a group", "consumerGroup", "topic"),
    _kind(_C.QUERY_TOPIC_CONSUME_BY_WHO, "broker", "the groups that consume a topic", "topic"),
    _kind(_C.QUERY_TOPICS_BY_CONSUMER, "broker", "the topics that a group consumes", "group",
          on_page=False),
    _kind(_C.QUERY_SUBSCRIPTION_BY_CONSUMER, "broker", "what a group subscribes of a topic",
          "group topic", on_page=False),
    _kind(_C.QUERY_CONSUME_TIME_SPAN, "broker", "the times that a group's backlog spans",
          "topic group"),
    _kind(_C.GET_TOPIC_CONFIG, "broker", "the configuration of a topic", "topic", "lo",
          on_page=False),
    _kind(_C.GET_SUBSCRIPTIONGROUP_CONFIG, "broker", "the configuration of a group", "group",
          on_page=False),
    _kind(_C.CLONE_GROUP_OFFSET, "broker", "copy the offsets of a group", "srcGroup destGroup",
          "topic offline", on_page=False),
    _kind(_C.INVOKE_BROKER_TO_RESET_OFFSET, "broker", "reset a group to a time",
          "topic group timestamp isForce", "queueId offset", ""),
    _kind(_C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "broker", "where a group's consumers are",
          "topic group", "clientAddr"),
    _kind(_C.RESET_CONSUMER_CLIENT_OFFSET, "client", "go on from these offsets",
          "topic group timestamp isForce"),
    _kind(_C.GET_CONSUMER_STATUS_FROM_CLIENT, "client", "say where you are", "topic group"),
    _kind(_C.GET_CONSUMER_RUNNING_INFO, "broker", "what a consumer does, asked through the broker",
          "consumerGroup clientId", "jstackEnable"),
    _kind(_C.CONSUME_MESSAGE_DIRECTLY, "broker", "have one consumer consume one message",
          "consumerGroup", "clientId msgId brokerName topic"),
    _kind(_C.QUERY_CONSUME_QUEUE, "broker", "a look into a queue", "topic queueId index count",
          "consumerGroup"),
    # Messages by id and key
    _kind(_C.QUERY_MESSAGE, "broker", "messages with a key",
          "topic key maxNum beginTimestamp endTimestamp", "_UNIQUE_KEY_QUERY",
          "indexLastUpdateTimestamp indexLastUpdatePhyoffset"),
    _kind(_C.VIEW_MESSAGE_BY_ID, "broker", "the message at an offset", "offset", "topic"),
    _kind(_C.RESUME_CHECK_HALF_MESSAGE, "broker", "check a given-up half message again", "",
          "topic msgId", on_page=False),
    # The broker itself
    _kind(_C.QUERY_BROKER_OFFSET, "broker", "obsolete: answered as not supported"),
    _kind(_C.UPDATE_BROKER_CONFIG, "broker", "change the configuration"),
    _kind(_C.GET_BROKER_CONFIG, "broker", "the configuration", "", "", "version", on_page=False),
    _kind(_C.UPDATE_AND_CREATE_ACL_CONFIG, "broker",
          "make or change an account of the access rules", "accessKey secretKey",
          "whiteRemoteAddress admin defaultTopicPerm defaultGroupPerm topicPerms groupPerms",
          on_page=False),
    _kind(_C.DELETE_ACL_CONFIG, "broker", "delete an account of the access rules", "accessKey",
          on_page=False),
    _kind(_C.GET_BROKER_CLUSTER_ACL_INFO, "broker", "the versions of the access rules", "", "",
          "version allAclFileVersion brokerName brokerAddr clusterName", on_page=False),
    _kind(_C.GET_BROKER_CLUSTER_ACL_CONFIG, "broker", "the accounts, without their secrets",
          on_page=False),
    _kind(_C.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "broker", "replace the trusted addresses",
          "globalWhiteAddrs", "aclFileFullPath", on_page=False),
    _kind(_C.GET_BROKER_RUNTIME_INFO, "broker", "versions, rates, offsets, queues"),
    _kind(_C.VIEW_BROKER_STATS_DATA, "broker", "one statistic by minute, hour and day",
          "statsName statsKey"),
    _kind(_C.GET_BROKER_CONSUME_STATS, "broker", "offsets and rates of all groups", "isOrder"),
    _kind(_C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, "broker", "the topics that the broker itself uses"),
    _kind(_C.CLEAN_EXPIRED_CONSUMEQUEUE, "broker", "drop what only lapsed messages used"),
    _kind(_C.CLEAN_UNUSED_TOPIC, "broker", "drop the data of topics that are gone"),
    _kind(_C.DELETE_EXPIRED_COMMITLOG, "broker", "drop lapsed messages now", on_page=False),
    # The name server
    _kind(_C.PUT_KV_CONFIG, "name server", "store a value", "namespace key value"),
    _kind(_C.GET_KV_CONFIG, "name server", "a stored value", "namespace key", "", "value"),
    _kind(_C.DELETE_KV_CONFIG, "name server", "drop a stored value", "namespace key"),
    _kind(_C.GET_KVLIST_BY_NAMESPACE, "name server", "all values of a namespace", "namespace",
          on_page=False),
    _kind(_C.REGISTER_BROKER, "name server", "a broker is there, with its topics",
          f"{_BROKER} haServerAddr brokerId", "compressed bodyCrc32 heartbeatTimeoutMillis",
          "masterAddr haServerAddr", on_page=False),
    _kind(_C.UNREGISTER_BROKER, "name server", "a broker leaves", f"{_BROKER} brokerId",
          on_page=False),
    _kind(_C.QUERY_DATA_VERSION, "name server", "whether a broker's topics are known as they are",
          f"{_BROKER} brokerId", "", "changed"),
    _kind(_C.GET_ROUTEINFO_BY_TOPIC, "name server", "the brokers and queues of a topic", "topic",
          "acceptStandardJsonOnly"),
    _kind(_C.GET_BROKER_CLUSTER_INFO, "name server", "all clusters and brokers"),
    _kind(_C.WIPE_WRITE_PERM_OF_BROKER, "name server", "route no more sends to a broker",
          "brokerName", "", "wipeTopicCount"),
    _kind(_C.ADD_WRITE_PERM_OF_BROKER, "name server", "route sends to a broker again",
          "brokerName", "", "addTopicCount", on_page=False),
    _kind(_C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "name server", "all topics"),
    _kind(_C.DELETE_TOPIC_IN_NAMESRV, "name server", "forget a topic", "topic", "clusterName"),
    _kind(_C.GET_TOPICS_BY_CLUSTER, "name server", "the topics of a cluster", "cluster"),
    _kind(_C.GET_SYSTEM_TOPIC_LIST_FROM_NS, "name server", "clusters and brokers as topic names"),
    _kind(_C.GET_UNIT_TOPIC_LIST, "name server", "topics of unit mode", on_page=False),
    _kind(_C.GET_HAS_UNIT_SUB_TOPIC_LIST, "name server", "topics with unit subscribers",
          on_page=False),
    _kind(_C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, "name server",
          "topics with unit subscribers that are not of unit mode", on_page=False),
    _kind(_C.UPDATE_NAMESRV_CONFIG, "name server", "change the name server's configuration"),
    _kind(_C.GET_NAMESRV_CONFIG, "name server", "the name server's configuration"),
)  # fmt: skip
