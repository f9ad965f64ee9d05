"""What covers each of RocketMQ's codes, and the page of the documentation that lists them.

Which codes there are, who serves them and with which fields stands in `protocol/codes.py`; here
stands which tests show it. `make pages` writes the page, `test_rocketmq_codes.py` checks that it
did, that the tests exist, and that no code is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from penstock.rocketmq.protocol.codes import (
    COMMANDS,
    CommandKind,
    RequestCode,
    ResponseCode,
    Server,
)

from .references import tests_of

PAGE = Path(__file__).parents[2] / "docs" / "spec" / "rocketmq-codes.md"
_SHORT = re.compile("^(unit|programs)/rocketmq/")

C, R = RequestCode, ResponseCode


def _tests_of(file: str, *functions: str) -> tuple[str, ...]:
    return tests_of(f"rocketmq/{file}", *(f"test_{function}" for function in functions))


def _broker(file: str, *functions: str) -> tuple[str, ...]:
    folder, _, name = f"broker/{file}".rpartition("/")
    return _tests_of(f"{folder}/test_{name}.py", *functions)


def _conformance(file: str, *functions: str) -> tuple[str, ...]:
    return tuple(f"conformance/test_rocketmq_{file}.py::test_{each}" for each in functions)


def _namesrv(*functions: str) -> tuple[str, ...]:
    return _tests_of("namesrv/test_processor.py", *functions)


# What shows that a request is served as it must be; every request of a broker is also sent with
# nothing, and with nonsense, by broker/test_answers.py.
REQUESTS: dict[RequestCode, tuple[str, ...]] = {
    # Sending
    C.SEND_MESSAGE: _broker("pull/pulling", "both_serialisations_and_the_long_names"),
    C.SEND_MESSAGE_V2: _broker("pull/pulling", "what_was_sent_is_pulled")
    + _broker("send/sending", "what_is_refused"),
    C.SEND_BATCH_MESSAGE: _broker("send/sending", "a_batch_is_stored_as_messages_of_its_queue"),
    C.CONSUMER_SEND_MSG_BACK: _broker(
        "send/sending", "a_retry_waits_in_a_level_and_knows_where_it_comes_from", "dead_letters"
    ),
    C.END_TRANSACTION: _broker(
        "transactions/ending", "a_commit_delivers_the_message", "a_rollback_delivers_nothing"
    ),
    C.CHECK_TRANSACTION_STATE: _conformance(
        "surprises", "10_a_check_of_a_half_message_names_its_new_offsets"
    ),
    C.RESUME_CHECK_HALF_MESSAGE: _broker(
        "transactions/ending", "what_was_given_up_is_checked_again_on_request"
    ),
    C.SEND_REPLY_MESSAGE: _broker("send/sending", "the_producer_gets_it_and_it_is_stored"),
    C.SEND_REPLY_MESSAGE_V2: _conformance("surprises", "17_codes_that_the_source_page_forgets"),
    C.PUSH_REPLY_MESSAGE_TO_CLIENT: _conformance(
        "surprises", "17_codes_that_the_source_page_forgets"
    ),
    C.RECALL_MESSAGE: _broker("delays/timers", "only_what_is_recalled_is_not_delivered"),
    # Pulling and offsets
    C.PULL_MESSAGE: _broker(
        "pull/pulling", "what_was_sent_is_pulled", "a_pull_waits_for_a_message_that_it_wants"
    ),
    C.LITE_PULL_MESSAGE: _broker("answers", "lite_pulls_are_pulls"),
    C.QUERY_CONSUMER_OFFSET: _broker("pull/pulling", "a_new_group_begins_at_0_of_a_young_queue"),
    C.UPDATE_CONSUMER_OFFSET: _broker(
        "pull/pulling", "committing", "offsets_are_committed_with_a_pull_and_one_way"
    ),
    C.SEARCH_OFFSET_BY_TIMESTAMP: _broker("pull/pulling", "searching_by_time"),
    C.GET_MAX_OFFSET: _broker("pull/pulling", "bounds_and_the_earliest_time"),
    C.GET_MIN_OFFSET: _broker("pull/pulling", "bounds_and_the_earliest_time"),
    C.GET_EARLIEST_MSG_STORETIME: _broker("pull/pulling", "bounds_and_the_earliest_time"),
    C.GET_ALL_CONSUMER_OFFSET: _broker("pull/pulling", "all_offsets_at_once"),
    C.GET_ALL_DELAY_OFFSET: _broker("delays/schedule", "offsets_are_told_as_java_tells_them"),
    C.QUERY_CORRECTION_OFFSET: _broker("admin/groups", "the_least_offsets_of_all_groups"),
    C.LOCK_BATCH_MQ: _broker("clients/groups", "locking_and_giving_back") + _conformance(
        "cases", "03_orderly_consumers_share_evenly_and_keep_the_order"
    ),
    C.UNLOCK_BATCH_MQ: _broker("clients/groups", "locking_and_giving_back"),
    # Popping
    C.POP_MESSAGE: (
        *_broker("pop/popping", "an_answer", "refusals"),
        *_broker("pop/in_order", "one_batch_of_a_queue_at_a_time"),
    ),
    C.ACK_MESSAGE: _broker(
        "pop/popping", "one_is_acknowledged", "acknowledgements_that_are_refused"
    ),
    C.BATCH_ACK_MESSAGE: _broker(
        "pop/popping", "several_are_acknowledged", "acknowledging_nothing"
    ),
    C.PEEK_MESSAGE: _broker("pop/popping", "looking"),
    C.CHANGE_MESSAGE_INVISIBLETIME: _broker("pop/popping", "another_time"),
    C.NOTIFICATION: _broker(
        "pop/popping", "something_comes", "nothing_comes",
        "in_order_nothing_is_there_while_a_batch_is_out"
    ),
    C.POLLING_INFO: _broker("pop/popping", "how_many_wait"),
    C.QUERY_ASSIGNMENT: _broker(
        "pop/request_modes", "who_pulls_has_queues_of_its_own", "who_pops_shares"
    ),
    C.SET_MESSAGE_REQUEST_MODE: _broker("pop/request_modes", "who_pops_shares", "refusals"),
    C.GET_ALL_MESSAGE_REQUEST_MODE: _broker("pop/request_modes", "modes_are_kept"),
    # Clients
    C.HEART_BEAT: _broker(
        "clients/groups", "all_members_hear_of_a_new_one_and_so_does_it", "a_heartbeat_one_way"
    ),
    C.UNREGISTER_CLIENT: _broker("clients/groups", "the_rest_hears_of_who_leaves"),
    C.GET_CONSUMER_LIST_BY_GROUP: _broker(
        "clients/groups", "a_heartbeat_one_way", "the_rest_hears_of_who_leaves"
    ),
    C.NOTIFY_CONSUMER_IDS_CHANGED: _broker("clients/groups", "a_heartbeat_one_way"),
    C.CHECK_CLIENT_CONFIG: _broker("clients/groups", "checking_a_filter"),
    C.GET_CONSUMER_CONNECTION_LIST: _broker("admin/clients", "consumers_with_what_they_subscribe"),
    C.GET_PRODUCER_CONNECTION_LIST: _broker("admin/clients", "producers"),
    C.GET_ALL_PRODUCER_INFO: _broker("admin/clients", "all_producers_and_when_they_were_heard"),
    C.GET_CONSUMER_RUNNING_INFO: _broker("admin/clients", "the_answer_comes_back_as_it_is"),
    C.CONSUME_MESSAGE_DIRECTLY: _broker("admin/clients", "consuming_one_message"),
    C.INVOKE_BROKER_TO_RESET_OFFSET: _broker(
        "admin/groups", "members_are_told_the_new_offsets", "what_cannot_be_reset"
    ),
    C.RESET_CONSUMER_CLIENT_OFFSET: _broker(
        "admin/groups", "members_are_told_the_new_offsets", "an_administrator_in_cpp_wants_a_list"
    ),
    C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _broker("admin/groups", "where_members_are"),
    C.GET_CONSUMER_STATUS_FROM_CLIENT: _broker("admin/groups", "where_members_are"),
    # Topics and groups
    C.UPDATE_AND_CREATE_TOPIC: _broker(
        "admin/tables", "making_and_changing", "topics_that_are_refused"
    ),
    C.UPDATE_AND_CREATE_TOPIC_LIST: _broker("admin/tables", "several_topics_at_once_or_none"),
    C.GET_ALL_TOPIC_CONFIG: _broker("admin/tables", "making_and_changing"),
    C.GET_TOPIC_CONFIG: _broker("admin/tables", "making_and_changing"),
    C.DELETE_TOPIC_IN_BROKER: _broker("admin/tables", "deleting_takes_messages_and_offsets"),
    C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _broker("admin/tables", "making_and_changing"),
    C.GET_TOPIC_STATS_INFO: _broker(
        "admin/topics", "bounds_of_each_queue_and_its_newest_message",
        "a_topic_or_queue_that_is_not_there"
    ),
    C.QUERY_TOPIC_CONSUME_BY_WHO: _broker(
        "admin/topics", "who_consumes_a_topic_are_those_online_and_those_with_offsets"
    ),
    C.QUERY_TOPICS_BY_CONSUMER: _broker("admin/topics", "the_topics_in_which_a_group_has_offsets"),
    C.QUERY_SUBSCRIPTION_BY_CONSUMER: _broker("admin/topics", "what_a_group_subscribes_of_a_topic"),
    C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _broker(
        "admin/tables", "making_and_changing_is_on_disk_before_the_answer",
        "groups_that_are_refused"
    ),
    C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _broker(
        "admin/tables", "several_groups_at_once_or_none"
    ),
    C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _broker(
        "admin/tables", "making_and_changing_is_on_disk_before_the_answer"
    ),
    C.GET_SUBSCRIPTIONGROUP_CONFIG: _broker("admin/tables", "one_group"),
    C.DELETE_SUBSCRIPTIONGROUP: _broker("admin/tables", "deleting_with_and_without_offsets"),
    C.GET_CONSUME_STATS: _broker("admin/groups", "offsets_of_a_group"),
    C.GET_BROKER_CONSUME_STATS: _broker("admin/groups", "all_groups_of_the_broker"),
    C.QUERY_CONSUME_TIME_SPAN: _broker("admin/groups", "the_times_that_a_backlog_spans"),
    C.CLONE_GROUP_OFFSET: _broker("admin/groups", "offsets_are_copied_to_another_group"),
    C.QUERY_CONSUME_QUEUE: _broker(
        "admin/topics", "place_size_and_tag_of_each_message", "a_topic_or_queue_that_is_not_there"
    ),
    # Messages by id and key
    C.QUERY_MESSAGE: _broker(
        "admin/queries", "a_message_is_found_right_after_it_was_sent",
        "what_is_not_there_is_not_found"
    ),
    C.VIEW_MESSAGE_BY_ID: _broker("admin/queries", "a_message_is_viewed_by_its_id"),
    # The broker itself
    C.QUERY_BROKER_OFFSET: _broker("answers", "no_request_is_met_with_silence"),
    C.UPDATE_BROKER_CONFIG: _broker(
        "admin/tables", "changes_act_and_are_kept_for_the_next_start",
        "what_is_refused_changes_nothing"
    ),
    C.GET_BROKER_CONFIG: _broker("admin/tables", "changes_act_and_are_kept_for_the_next_start"),
    C.GET_BROKER_RUNTIME_INFO: _broker(
        "admin/broker", "all_that_tools_read_is_there_as_text",
        "totals_and_offsets_are_those_of_the_store"
    ),
    C.VIEW_BROKER_STATS_DATA: _broker("admin/broker", "one_statistic"),
    C.CLEAN_EXPIRED_CONSUMEQUEUE: _broker("admin/broker", "queues_forget_what_is_gone"),
    C.CLEAN_UNUSED_TOPIC: _broker("admin/broker", "the_data_of_topics_without_configuration"),
    C.DELETE_EXPIRED_COMMITLOG: _broker("admin/broker", "what_retention_does_not_keep_is_deleted"),
    C.UPDATE_AND_CREATE_ACL_CONFIG: _broker(
        "acl/commands", "accounts_are_changed_and_count_at_once"
    ),
    C.DELETE_ACL_CONFIG: _broker("acl/commands", "accounts_are_changed_and_count_at_once"),
    C.GET_BROKER_CLUSTER_ACL_INFO: _broker("acl/commands", "versions_are_told"),
    C.GET_BROKER_CLUSTER_ACL_CONFIG: _broker("acl/commands", "accounts_are_shown_without_secrets"),
    C.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _broker(
        "acl/commands", "trusted_addresses_are_changed_and_count_at_once"
    ),
    # The name server
    C.PUT_KV_CONFIG: _namesrv("stored_values"),
    C.GET_KV_CONFIG: _namesrv("stored_values"),
    C.DELETE_KV_CONFIG: _namesrv("stored_values"),
    C.GET_KVLIST_BY_NAMESPACE: _namesrv("stored_values"),
    C.REGISTER_BROKER: _namesrv("registration_and_route", "damaged_registrations"),
    C.UNREGISTER_BROKER: _namesrv("masters_and_slaves"),
    C.QUERY_DATA_VERSION: _namesrv("data_version"),
    C.GET_ROUTEINFO_BY_TOPIC: _namesrv("registration_and_route"),
    C.GET_BROKER_CLUSTER_INFO: _namesrv("masters_and_slaves"),
    C.WIPE_WRITE_PERM_OF_BROKER: _namesrv("write_permission"),
    C.ADD_WRITE_PERM_OF_BROKER: _namesrv("write_permission"),
    C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _namesrv("topic_lists"),
    C.DELETE_TOPIC_IN_NAMESRV: _namesrv("topic_lists"),
    C.GET_TOPICS_BY_CLUSTER: _namesrv("topic_lists"),
    C.GET_SYSTEM_TOPIC_LIST_FROM_NS: _namesrv("topic_lists"),
    C.GET_UNIT_TOPIC_LIST: _namesrv("topic_lists"),
    C.GET_HAS_UNIT_SUB_TOPIC_LIST: _namesrv("topic_lists"),
    C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _namesrv("topic_lists"),
    C.UPDATE_NAMESRV_CONFIG: _namesrv("own_configuration"),
    C.GET_NAMESRV_CONFIG: _namesrv("own_configuration"),
}  # fmt: skip


class Response(NamedTuple):
    """When a server answers with a code, by its name (a number may have two), and what shows it.

    Without tests: never, for the reason told.
    """

    name: str
    when: str
    tests: tuple[str, ...] = ()


RESPONSES = (
    Response("SUCCESS", "it was done", _broker("pull/pulling", "what_was_sent_is_pulled")),
    Response("SYSTEM_ERROR", "a field is missing or makes no sense, or the server failed; the "
             "remark says which", _broker("answers", "no_request_is_met_with_silence")),
    Response("SYSTEM_BUSY", "too much is under way; come again",
             _broker("answers", "too_many_answers_under_way_are_refused")),
    Response("REQUEST_CODE_NOT_SUPPORTED", "no such request",
             _conformance(
                 "surprises", "21_unknown_codes_are_answered"
             ) + _namesrv("unknown_requests")),
    Response("TRANSACTION_FAILED", "no server sends it"),
    Response("FLUSH_DISK_TIMEOUT", "the message is stored, but the disk is slow to make that last",
             _broker("send/sending", "only_what_waits_too_long_is_answered")),
    Response("SLAVE_NOT_AVAILABLE", "`SYNC_MASTER`: the message is stored, and no slave follows, "
             "or is far behind; a slave is asked to end a transaction",
             _broker("slaves/acks", "answers_say_whether_a_slave_has_the_message")),
    Response("FLUSH_SLAVE_TIMEOUT", "`SYNC_MASTER`: the message is stored, and no slave had it in "
             "time", _broker("slaves/acks", "answers_say_whether_a_slave_has_the_message")),
    Response("MESSAGE_ILLEGAL", "a message, its properties or its batch is too large or damaged",
             _broker("send/sending", "what_is_refused")),
    Response("SERVICE_NOT_AVAILABLE", "a full or read-only disk, a broker that stops or is a slave",
             _broker("answers", "a_full_disk_is_told_and_a_topic_that_takes_no_more")),
    Response("VERSION_NOT_SUPPORTED", "obsolete; no server sends it"),
    Response("NO_PERMISSION", "permissions of broker, topic or group, the access rules, or a list "
             "of what no command may change",
             _broker("send/sending",
                     "a_broker_without_permission_refuses_messages_of_ordered_topics")
             + _broker("pull/pulling", "who_may_not_pull_is_told_why")),
    Response("TOPIC_NOT_EXIST", "no such topic, and it may not be made",
             _broker("send/sending", "what_is_refused")
             + _broker("admin/topics", "a_topic_or_queue_that_is_not_there")
             + _namesrv("registration_and_route")),
    Response("TOPIC_EXIST_ALREADY", "no server sends it"),
    Response("PULL_NOT_FOUND", "no message yet at that offset",
             _broker("pull/pulling", "the_codes_when_there_is_nothing")),
    Response("PULL_RETRY_IMMEDIATELY", "messages, but none that the group wants; go on behind them",
             _broker("pull/pulling", "tags_are_filtered_and_the_offset_moves_on")),
    Response("PULL_OFFSET_MOVED", "the offset is outside the queue; go on where the answer says",
             _broker("pull/pulling", "the_codes_when_there_is_nothing")),
    Response("QUERY_NOT_FOUND", "no such offset, message or stored value",
             _broker("pull/pulling", "a_queue_that_has_lost_messages_is_not_young")
             + _namesrv("stored_values")),
    Response("SUBSCRIPTION_PARSE_FAILED", "a filter expression that makes no sense",
             _broker("clients/groups", "checking_a_filter")),
    Response("SUBSCRIPTION_NOT_EXIST", "no member of the group says what it wants of the topic",
             _broker("answers", "subscriptions_that_are_missing_old_or_wrong")),
    Response("SUBSCRIPTION_NOT_LATEST", "the broker knows an older subscription only",
             _broker("answers", "subscriptions_that_are_missing_old_or_wrong")),
    Response("SUBSCRIPTION_GROUP_NOT_EXIST", "no such group, and groups are not made by themselves",
             _broker("clients/groups", "groups_that_there_are_not")),
    Response("FILTER_DATA_NOT_EXIST", "the group's last heartbeat had an expression without sense",
             _broker("answers", "subscriptions_that_are_missing_old_or_wrong")),
    Response("FILTER_DATA_NOT_LATEST", "a filter is as new as its subscription"),
    Response("INVALID_PARAMETER", "a field of a pop makes no sense; others answer 1, as 4.9 does",
             _broker("pop/popping", "refusals")),
    Response("CONSUMER_NOT_ONLINE", "no member of the group is connected",
             _broker("admin/clients", "consumers_with_what_they_subscribe")),
    Response("CONSUME_MSG_TIMEOUT", "the consumer that was asked does not answer",
             _broker("admin/queries", "a_consumer_that_takes_too_long")),
    Response("NO_MESSAGE", "what is acknowledged is not in the queue",
             _broker("pop/popping", "acknowledgements_that_are_refused", "acknowledging_nothing")),
    Response("POLLING_FULL", "too many pops wait already", _broker("pop/popping", "how_many_wait")),
    Response("POLLING_TIMEOUT", "a pop has waited in vain", _broker("pop/popping", "an_answer")),
    Response("UPDATE_AND_CREATE_ACL_CONFIG_FAILED", "an account could not be written",
             _broker("acl/commands", "what_makes_no_sense_is_refused")),
    Response("DELETE_ACL_CONFIG_FAILED", "an account could not be deleted",
             _broker("acl/commands", "accounts_are_changed_and_count_at_once")),
    Response("UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED",
             "the trusted addresses could not be written",
             _broker("acl/commands", "what_makes_no_sense_is_refused")),
    Response("ILLEGAL_OPERATION", "what is recalled does not wait, or is another's",
             _broker("delays/timers", "refusals_have_javas_words")),
)  # fmt: skip

_INTRODUCTION = """\
# RocketMQ's codes

Every request and response code that Penstock knows, written by `make pages` from the table that
the servers themselves use. Codes in bold are on the protocol's page; clients and tools use the
others as well. A request must have the fields that are plain, it may have those in italics; what
stands behind an arrow comes with the answer. Tests are below `tests/unit/rocketmq`,
`tests/programs/rocketmq` or `tests`; beside them, each request of a broker is sent with nothing and
with nonsense (`broker/test_answers.py`), and real clients are run (`tests/interop`).
"""
_SECTIONS: tuple[tuple[Server, str], ...] = (
    ("broker", "What a broker is asked"),
    ("name server", "What a name server is asked"),
    ("client", "What a broker asks its clients"),
)


def page() -> str:
    """The page of the documentation."""
    parts = [_INTRODUCTION]
    for server, heading in _SECTIONS:
        parts.append(f"## {heading}\n")
        kinds = sorted((kind for kind in COMMANDS if kind.server == server), key=_code)
        parts.append(_table("Code | Name | What for | Fields | Test", map(_request_row, kinds)))
    parts.append("## How requests end\n")
    parts.append(_table("Code | Name | When | Test", map(_response_row, RESPONSES)))
    return "\n".join(parts)


def _code(kind: CommandKind) -> int:
    return kind.code.value


def _table(head: str, rows: Iterable[str]) -> str:
    rule = " | ".join("---" for _ in head.split(" | "))
    return "\n".join(f"| {row} |" for row in (head, rule, *rows)) + "\n"


def _request_row(kind: CommandKind) -> str:
    code = f"**{kind.code.value}**" if kind.on_page else str(kind.code.value)
    fields = [f"`{name}`" for name in kind.required]
    fields += [f"*`{name}`*" for name in kind.optional]
    answer = f" → {' '.join(f'`{name}`' for name in kind.answers)}" if kind.answers else ""
    cells = (code, kind.code.name, kind.purpose, f"{' '.join(fields)}{answer}",
             _tests(REQUESTS[kind.code]))  # fmt: skip
    return " | ".join(cells)


def _response_row(response: Response) -> str:
    when = response.when if response.tests else f"never: {response.when}"
    code = ResponseCode[response.name].value
    return " | ".join((str(code), response.name, when, _tests(response.tests)))


def _tests(references: tuple[str, ...]) -> str:
    return "<br>".join(f"`{_SHORT.sub('', each)}`" for each in references)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
