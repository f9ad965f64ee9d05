"""Every sub-command with its options: the one table that parser, usage and documentation read.

Names, options and their descriptions are those of RocketMQ 4.9.7. Later ones dropped
``getAclConfig`` because it printed secrets, which ours does not.
"""

from __future__ import annotations

from typing import Final

from penstock.rocketmq.mqadmin.options import Option, SubCommand, either, flag, may, must


def _command(name: str, help: str, home: str, *options: Option, alias: str = "") -> SubCommand:
    return SubCommand(name, help, home, options, alias)


SUB_COMMANDS: Final = (
    _command(
        "updateTopic", "Update or create topic", "topics.update_topic",
        either("b", "brokerAddr", "create topic to which broker"),
        either("c", "clusterName", "create topic to which cluster"),
        must("t", "topic", "topic name"),
        may("r", "readQueueNums", "set read queue nums"),
        may("w", "writeQueueNums", "set write queue nums"),
        may("p", "perm", "set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]"),
        may("o", "order", "set topic's order(true|false)"),
        may("u", "unit", "is unit topic (true|false)"),
        may("s", "hasUnitSub", "has unit sub (true|false)"),
        may("a", "attributes", "attribute(+a=b,+c=d,-e), as 5.x has them"),
    ),
    _command(
        "deleteTopic", "Delete topic from broker and NameServer.", "topics.delete_topic",
        must("t", "topic", "topic name"),
        must("c", "clusterName", "delete topic from which cluster"),
    ),
    _command(
        "updateSubGroup", "Update or create subscription group", "groups.update_sub_group",
        may("b", "brokerAddr", "create subscription group to which broker"),
        may("c", "clusterName", "create subscription group to which cluster"),
        must("g", "groupName", "consumer group name"),
        may("s", "consumeEnable", "consume enable"),
        may("m", "consumeFromMinEnable", "from min offset"),
        may("d", "consumeBroadcastEnable", "broadcast"),
        may("o", "consumeMessageOrderly", "consume message orderly, as 5.x has it"),
        may("q", "retryQueueNums", "retry queue nums"),
        may("r", "retryMaxTimes", "retry max times"),
        may("i", "brokerId", "consumer from which broker id"),
        may("w", "whichBrokerWhenConsumeSlowly", "which broker id when consume slowly"),
        may("a", "notifyConsumerIdsChanged", "notify consumerId changed"),
    ),
    _command(
        "deleteSubGroup", "Delete subscription group from broker.", "groups.delete_sub_group",
        may("b", "brokerAddr", "delete subscription group from which broker"),
        may("c", "clusterName", "delete subscription group from which cluster"),
        must("g", "groupName", "subscription group name"),
        may("r", "removeOffset", "remove offset"),
    ),
    _command(
        "updateBrokerConfig", "Update broker's config", "brokers.update_broker_config",
        may("b", "brokerAddr", "update which broker"),
        may("c", "clusterName", "update which cluster"),
        must("k", "key", "config key"),
        must("v", "value", "config value"),
    ),
    _command(
        "updateTopicPerm", "Update topic perm", "topics.update_topic_perm",
        may("b", "brokerAddr", "create topic to which broker"),
        may("c", "clusterName", "create topic to which cluster"),
        must("t", "topic", "topic name"),
        must("p", "perm", "set topic's permission(2|4|6), intro[2:W; 4:R; 6:RW]"),
    ),
    _command(
        "topicRoute", "Examine topic route info", "topic_views.topic_route",
        must("t", "topic", "topic name"),
        flag("l", "list", "Use list format to print data"),
    ),
    _command(
        "topicStatus", "Examine topic Status info", "topic_views.topic_status",
        must("t", "topic", "topic name"),
    ),
    _command(
        "topicClusterList", "get cluster info for topic", "topic_views.topic_cluster_list",
        must("t", "topic", "topic name"),
    ),
    _command(
        "brokerStatus", "Fetch broker runtime status data", "brokers.broker_status",
        may("b", "brokerAddr", "Broker address"),
        may("c", "clusterName", "which cluster"),
    ),
    _command(
        "queryMsgById", "Query Message by Id", "messages.finding.query_msg_by_id",
        must("i", "msgId", "Message Id"),
        may("g", "consumerGroup", "consumer group name"),
        may("d", "clientId", "The consumer's client id"),
        may("s", "sendMessage", "resend message"),
        may("u", "unitName", "unit name"),
    ),
    _command(
        "queryMsgByKey", "Query Message by Key", "messages.finding.query_msg_by_key",
        must("t", "topic", "topic name"),
        must("k", "msgKey", "Message Key"),
    ),
    _command(
        "queryMsgByUniqueKey", "Query Message by Unique key",
        "messages.finding.query_msg_by_unique_key",
        must("i", "msgId", "Message Id"),
        may("g", "consumerGroup", "consumer group name"),
        may("d", "clientId", "The consumer's client id"),
        must("t", "topic", "The topic of msg"),
        flag("a", "showAll", "Print all message, the limit is 32"),
    ),
    _command(
        "queryMsgByOffset", "Query Message by offset", "messages.finding.query_msg_by_offset",
        must("t", "topic", "topic name"),
        must("b", "brokerName", "Broker Name"),
        must("i", "queueId", "Queue Id"),
        must("o", "offset", "Queue Offset"),
    ),
    _command(
        "queryMsgTraceById", "query a message trace", "messages.traces.query_trace",
        must("i", "msgId", "Message Id"),
        may("t", "traceTopic", "The name value of message trace topic"),
        alias="QueryMsgTraceById",
    ),
    _command(
        "printMsg", "Print Message Detail", "messages.printing.print_msg",
        must("t", "topic", "topic name"),
        may("c", "charsetName", "CharsetName(eg: UTF-8,GBK)"),
        may("s", "subExpression", "Subscribe Expression(eg: TagA || TagB)"),
        may("b", "beginTimestamp", "Begin timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
        may("e", "endTimestamp", "End timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
        may("d", "printBody", "print body"),
    ),
    _command(
        "printMsgByQueue", "Print Message Detail", "messages.printing.print_msg_by_queue",
        must("t", "topic", "topic name"),
        must("a", "brokerName", "broker name"),
        must("i", "queueId", "queue id"),
        may("c", "charsetName", "CharsetName(eg: UTF-8,GBK)"),
        may("s", "subExpression", "Subscribe Expression(eg: TagA || TagB)"),
        may("b", "beginTimestamp", "Begin timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
        may("e", "endTimestamp", "End timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
        may("p", "print msg", "print msg. eg: true | false(default)"),
        may("d", "printBody", "print body. eg: true | false(default)"),
        may("f", "calculate", "calculate by tag. eg: true | false(default)"),
    ),
    _command(
        "sendMsgStatus", "send msg to broker.", "messages.sending.send_msg_status",
        must("b", "brokerName", "Broker Name"),
        may("s", "messageSize", "Message Size, Default: 128"),
        may("c", "count", "send message count, Default: 50"),
    ),
    _command(
        "brokerConsumeStats", "Fetch broker consume stats data", "brokers.broker_consume_stats",
        must("b", "brokerAddr", "Broker address"),
        may("t", "timeoutMillis", "request timeout Millis"),
        may("l", "level", "threshold of print diff"),
        may("o", "order", "order topic"),
    ),
    _command(
        "producerConnection",
        "Query producer's socket connection and client version",
        "connections.producer_connection",
        must("g", "producerGroup", "producer group name"),
        must("t", "topic", "topic name"),
    ),
    _command(
        "consumerConnection",
        "Query consumer's socket connection, client version and subscription",
        "connections.consumer_connection",
        must("g", "consumerGroup", "consumer group name"),
        may("b", "brokerAddr", "broker address"),
    ),
    _command(
        "consumerProgress", "Query consumers's progress, speed", "progress.progress",
        may("g", "groupName", "consumer group name"),
        may("s", "showClientIP", "Show Client IP per Queue"),
    ),
    _command(
        "consumerStatus", "Query consumer's internal data structure", "consumers.status",
        must("g", "consumerGroup", "consumer group name"),
        may("i", "clientId", "The consumer's client id"),
        may("b", "brokerAddr", "broker address"),
        flag("s", "jstack", "Run jstack command in the consumer progress"),
    ),
    _command(
        "cloneGroupOffset", "clone offset from other group.", "offsets.clone",
        must("s", "srcGroup", "set source consumer group"),
        must("d", "destGroup", "set destination consumer group"),
        must("t", "topic", "set the topic"),
        may("o", "offline", "the group or the topic is offline"),
    ),
    _command(
        "producer", "Query producer's instances, connection, status, etc.", "connections.producer",
        must("b", "broker", "broker address"),
    ),
    _command(
        "clusterList", "List all of clusters", "clusters.list_clusters",
        flag("m", "moreStats", "Print more stats"),
        may("i", "interval", "specify intervals numbers, it is in seconds"),
    ),
    _command(
        "topicList", "Fetch all topic list from name server", "topic_views.topic_list",
        flag("c", "clusterModel", "clusterModel"),
    ),
    _command(
        "updateKvConfig", "Create or update KV config.", "name_servers.update_kv_config",
        must("s", "namespace", "set the namespace"),
        must("k", "key", "set the key name"),
        must("v", "value", "set the key value"),
    ),
    _command(
        "deleteKvConfig", "Delete KV config.", "name_servers.delete_kv_config",
        must("s", "namespace", "set the namespace"),
        must("k", "key", "set the key name"),
    ),
    _command(
        "wipeWritePerm",
        "Wipe write perm of broker in all name server you defined in the -n param",
        "name_servers.wipe_write_perm",
        must("b", "brokerName", "broker name"),
    ),
    _command(
        "addWritePerm",
        "Add write perm of broker in all name server you defined in the -n param",
        "name_servers.add_write_perm",
        must("b", "brokerName", "broker name"),
    ),
    _command(
        "resetOffsetByTime",
        "Reset consumer offset by timestamp(without client restart).",
        "offsets.reset",
        must("g", "group", "set the consumer group"),
        must("t", "topic", "set the topic"),
        must("s", "timestamp", "set the timestamp[now|currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
        may("f", "force", "set the force rollback by timestamp switch[true|false]"),
        flag("c", "cplus", "reset c++ client offset"),
    ),
    _command(
        "skipAccumulatedMessage",
        "Skip all messages that are accumulated (not consumed) currently",
        "offsets.skip",
        must("g", "group", "set the consumer group"),
        must("t", "topic", "set the topic"),
        may("f", "force", "set the force rollback by timestamp switch[true|false]"),
    ),
    _command(
        "updateOrderConf", "Create or update or delete order conf", "topics.update_order_conf",
        must("t", "topic", "topic name"),
        may("v", "orderConf", "set order conf [eg. brokerName1:num;brokerName2:num]"),
        must("m", "method", "option type [eg. put|get|delete"),
    ),
    _command(
        "cleanExpiredCQ", "Clean expired ConsumeQueue on broker.", "cleaning.clean_expired",
        may("b", "brokerAddr", "Broker address"),
        may("c", "cluster", "clustername"),
    ),
    _command(
        "deleteExpiredCommitLog", "Delete expired CommitLog files", "cleaning.delete_expired",
        may("n", "namesrvAddr", "Name server address"),
        may("b", "brokerAddr", "Broker address"),
        may("c", "cluster", "clustername"),
    ),
    _command(
        "cleanUnusedTopic", "Clean unused topic on broker.", "cleaning.clean_unused",
        may("b", "brokerAddr", "Broker address"),
        may("c", "cluster", "cluster name"),
    ),
    _command(
        "startMonitoring", "Start Monitoring", "monitoring.monitor",
    ),
    _command(
        "statsAll", "Topic and Consumer tps stats", "stats.all_stats",
        flag("a", "activeTopic", "print active topic only"),
        may("t", "topic", "print select topic only"),
    ),
    _command(
        "allocateMQ", "Allocate MQ", "topic_views.allocate",
        must("t", "topic", "topic name"),
        must("i", "ipList", "ipList"),
    ),
    _command(
        "checkMsgSendRT", "check message send response time", "messages.sending.check_rt",
        must("t", "topic", "topic name"),
        may("a", "amount", "message amount | default 100"),
        may("s", "size", "message size | default 128 Byte"),
    ),
    _command(
        "clusterRT", "List All clusters Message Send RT", "messages.sending.cluster_rt",
        may("a", "amount", "message amount | default 100"),
        may("s", "size", "message size | default 128 Byte"),
        may("c", "cluster", "cluster name | default display all cluster"),
        may("p", "print log", "print as tlog | default false"),
        may("m", "machine room", "machine room name | default noname"),
        may("i", "interval", "print interval | default 10 seconds"),
    ),
    _command(
        "getNamesrvConfig", "Get configs of name server.", "name_servers.get_namesrv_config",
    ),
    _command(
        "updateNamesrvConfig",
        "Update configs of name server.",
        "name_servers.update_namesrv_config",
        must("k", "key", "config key"),
        must("v", "value", "config value"),
    ),
    _command(
        "getBrokerConfig",
        "Get broker config by cluster or special broker!",
        "brokers.get_broker_config",
        may("b", "brokerAddr", "get which broker"),
        may("c", "clusterName", "get which cluster"),
    ),
    _command(
        "getConsumerConfig",
        "Get consumer config by subscription group name!",
        "groups.get_consumer_config",
        must("g", "groupName", "subscription group name"),
    ),
    _command(
        "queryCq", "Query cq command.", "queue_views.query",
        must("t", "topic", "topic name"),
        must("q", "queue", "queue num, ie. 1"),
        must("i", "index", "start queue index."),
        may("c", "count", "how many."),
        may("b", "broker", "broker addr."),
        may("g", "consumer", "consumer group."),
    ),
    _command(
        "sendMessage", "Send a message", "messages.sending.send_message",
        must("t", "topic", "Topic name"),
        must("p", "body", "UTF-8 string format of the message body"),
        may("k", "key", "Message keys"),
        may("c", "tags", "Message tags"),
        may("b", "broker", "Send message to target broker"),
        may("i", "qid", "Send message to target queue"),
        may("m", "msgTraceEnable", "Message Trace Enable, Default: false"),
    ),
    _command(
        "consumeMessage", "Consume message", "messages.printing.consume_message",
        must("t", "topic", "Topic name"),
        may("b", "brokerName", "Broker name"),
        may("i", "queueId", "Queue Id"),
        may("o", "offset", "Queue offset"),
        may("g", "consumerGroup", "Consumer group name"),
        may("s", "beginTimestamp", "Begin timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
        may("e", "endTimestamp", "End timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
        may("c", "MessageNumber", "Number of message to be consumed"),
    ),
    _command(
        "updateAclConfig", "Update acl config yaml file in broker", "acl.update_acl_config",
        either("b", "brokerAddr", "update acl config file to which broker"),
        either("c", "clusterName", "update acl config file to which cluster"),
        must("a", "accessKey", "set accessKey in acl config file"),
        must("s", "secretKey", "set secretKey in acl config file"),
        may("w", "whiteRemoteAddress", "set white ip Address for account in acl config file"),
        may("i", "defaultTopicPerm", "set default topicPerm in acl config file"),
        may("u", "defaultGroupPerm", "set default GroupPerm in acl config file"),
        may("t", "topicPerms", "set topicPerms list,eg: topicA=DENY,topicD=SUB"),
        may("g", "groupPerms", "set groupPerms list,eg: groupD=DENY,groupD=SUB"),
        may("m", "admin", "set admin flag in acl config file"),
    ),
    _command(
        "deleteAclConfig", "Delete Acl Config Account in broker", "acl.delete_acl_config",
        either("b", "brokerAddr", "delete acl config account from which broker"),
        either("c", "clusterName", "delete acl config account from which cluster"),
        must("a", "accessKey", "set accessKey in acl config file for deleting which account"),
        alias="deleteAccessConfig",
    ),
    _command(
        "clusterAclConfigVersion",
        "List all of acl config version information in cluster",
        "acl.cluster_acl_config_version",
        either("b", "brokerAddr", "query acl config version for which broker"),
        either("c", "clusterName", "query acl config version for specified cluster"),
    ),
    _command(
        "getAclConfig",
        "List all of acl config information in cluster",
        "acl.get_acl_config",
        either("b", "brokerAddr", "query acl config version for which broker"),
        either("c", "clusterName", "query acl config version for specified cluster"),
        alias="getAccessConfigSubCommand",
    ),
    _command(
        "updateGlobalWhiteAddr",
        "Update global white address for acl Config File in broker",
        "acl.update_global_white_addr",
        either("b", "brokerAddr", "update global white address to which broker"),
        either("c", "clusterName", "update global white address to which cluster"),
        must(
            "g", "globalWhiteRemoteAddresses",
            "set globalWhiteRemoteAddress list,eg: 10.10.103.*,192.168.0.*",
        ),
        may(
            "p", "aclFileFullPath",
            "update global white address of specified acl file,eg: /xxx/plain_test.yml",
        ),
    ),
    _command(
        "exportMetadata", "export metadata", "exports.export_metadata",
        may("c", "clusterName", "choose a cluster to export"),
        may("b", "brokerAddr", "choose a broker to export"),
        may("f", "filePath", "export metadata.json path | default /tmp/rocketmq/export"),
        flag("t", "topic", "only export topic metadata"),
        flag("g", "subscriptionGroup", "only export subscriptionGroup metadata"),
        flag("s", "specialTopic", "need retryTopic and dlqTopic"),
    ),
    _command(
        "exportConfigs", "export configs", "exports.export_configs",
        must("c", "clusterName", "choose a cluster to export"),
        may("f", "filePath", "export configs.json path | default /tmp/rocketmq/export"),
    ),
    _command(
        "exportMetrics", "export metrics", "exports.export_metrics",
        must("c", "clusterName", "choose a cluster to export"),
        may("f", "filePath", "export metrics.json path | default /tmp/rocketmq/export"),
    ),
)  # fmt: skip


def find(name: str) -> SubCommand | None:
    """The sub-command of this name, in whatever case; None when there is no such command."""
    wanted = name.lower()
    for each in SUB_COMMANDS:
        if wanted and wanted in (each.name.lower(), each.alias.lower()):
            return each
    return None
