"""The tests of Go's nsqd, by the names they have there, and what shows the same here.

References as in `references.py`. Left out are tests of Go's inner parts. Behind them stand cases
that Go's tests lack.
"""

from __future__ import annotations

_DELIVERY = "conformance/test_nsqd_delivery.py::test_"
_CONNECTIONS = "conformance/test_nsqd_connections.py::test_"
_SECURITY = "conformance/test_nsqd_security.py::test_"
_NODE = "conformance/test_nsqd_node.py::test_"
_CLI = "conformance/test_nsqd_cli.py::test_"
_SESSION = "programs/nsq/nsqd/tcp/test_session.py::test_"
_TROUBLE = "programs/nsq/nsqd/tcp/test_session_trouble.py::test_"
_TCP, _HTTP = "tcp.jsonl:", "http.jsonl:"

PROTOCOL: dict[str, list[str]] = {
    "ChannelTopicNames": [_TCP + "topic-name-valid-0", _TCP + "topic-name-invalid-10"],
    "BasicV2": [_DELIVERY + "identify_subscribe_and_receive"],
    "MultipleConsumerV2": [_TCP + "two-channels-copies"],
    "SameZoneConsumerV2": [_DELIVERY + "consumers_of_the_same_zone_come_first"],
    "ClientTimeout": [_TCP + "heartbeat-no-answer-closes"],
    "ClientHeartbeat": [_TCP + "heartbeat-1s", _SESSION + "any_command_keeps_the_connection"],
    "ClientHeartbeatDisableSUB": [_TCP + "sub-heartbeat-disabled"],
    "ClientHeartbeatDisable": [_TCP + "heartbeat-disabled"],
    "MaxHeartbeatIntervalValid": [_DELIVERY + "the_longest_heartbeat_interval"],
    "MaxHeartbeatIntervalInvalid": [_DELIVERY + "the_longest_heartbeat_interval"],
    "Pausing": [_TCP + "channel-pause", _TCP + "pause-then-rdy-delivery-resumes"],
    "EmptyCommand": [_TCP + "empty-line-twice"],
    "SizeLimits": [
        _TCP + "limits-pub-95",
        _TCP + "limits-pub-105",
        _TCP + "limits-mpub-5x100",
        _TCP + "limits-mpub-11x100",
        _TCP + "limits-mpub-5x101",
        _TCP + "pub-size-0",
        _TCP + "mpub-message-0",
    ],
    "DPUB": [
        _TCP + "dpub-delivered-later",
        _TCP + "dpub-too-long",
        _DELIVERY + "deferred_messages_are_counted_and_emptied",
    ],
    "Touch": [_DELIVERY + "touch_puts_the_deadline_off"],
    "MaxRdyCount": [_TCP + "rdy-max-50"],
    "FatalError": [_TCP + "unknown-command"],
    "OutputBuffering": [_DELIVERY + "a_large_message_waits_in_a_large_buffer"],
    "OutputBufferingValidity": [_DELIVERY + "buffer_sizes_may_be_negotiated_again"],
    "TLS": [_TCP + "tls-upgrade"],
    "TLSRequired": [_SECURITY + "large_messages_inside_every_layer"],
    "TLSAuthRequire": [_TCP + "tls-policy-require-nocert", _TCP + "tls-policy-require-self"],
    "TLSAuthRequireVerify": [
        _TCP + "tls-policy-require-verify-nocert",
        _TCP + "tls-policy-require-verify-self",
        _TCP + "tls-policy-require-verify-client",
    ],
    "Deflate": [_TCP + "identify-deflate"],
    "Snappy": [_TCP + "identify-snappy"],
    "TLSDeflate": [_TCP + "tls-deflate", _SECURITY + "large_messages_inside_every_layer"],
    "TLSSnappy": [_TCP + "tls-snappy", _SECURITY + "large_messages_inside_every_layer"],
    "Sampling": [_DELIVERY + "sampling_delivers_about_so_many_percent", _TCP + "sample-rate-42"],
    "ClientMsgTimeout": [_DELIVERY + "a_message_that_timed_out_is_not_in_flight"],
    "BadFin": [_TCP + "fin-empty-id"],
    "ReqTimeoutRange": [_TCP + "req-0-redelivered", _TCP + "req-clamped-max"],
    "ClientAuth": [
        _SECURITY + "what_an_auth_server_is_asked",
        _SECURITY + "an_auth_server_is_told_the_name_in_the_certificate",
        _SECURITY + "an_auth_server_that_allows_nothing",
    ],
}

HTTP: dict[str, list[str]] = {
    "HTTPpub": [_HTTP + "pub"],
    "HTTPpubEmpty": [_HTTP + "pub-empty"],
    "HTTPmpub": [_HTTP + "mpub-text"],
    "HTTPmpubEmpty": [_HTTP + "mpub-text-empty-lines"],
    "HTTPmpubBinary": [_HTTP + "mpub-binary-true"],
    "HTTPmpubForNonNormalizedBinaryParam": [_HTTP + "mpub-binary-anything"],
    "HTTPpubDefer": [_HTTP + "pub-defer-0", "programs/nsq/nsqd/http/test_api.py::test_deferred"],
    "HTTPSRequire": [_SECURITY + "https_with_any_client_certificate"],
    "HTTPSRequireVerify": [_SECURITY + "https_with_a_certificate_of_the_ca"],
    "TLSRequireVerifyExceptHTTP": [_SECURITY + "http_beside_https"],
    "HTTPV1TopicChannel": [
        _HTTP + name
        for name in (
            "topic-create",
            "channel-create",
            "topic-pause",
            "topic-unpause",
            "channel-pause",
            "channel-unpause",
            "channel-delete",
            "topic-delete",
            "channel-pause-no-args",
            "topic-unpause-unknown",
        )
    ],
    "HTTPClientStats": [_NODE + "statistics_with_and_without_their_parts"],
    "HTTPgetStatusJSON": [_HTTP + "stats-json-fresh"],
    "HTTPgetStatusText": [_HTTP + "stats-text-fresh"],
    "HTTPconfig": [
        _HTTP + "config-get-nsqlookupd_tcp_addresses",
        _HTTP + "config-put-lookupd",
        _HTTP + "config-put-log-level-fatal",
        _HTTP + "config-put-log-level-bad-quoted",
    ],
    "HTTPerrors": [_HTTP + "method-not-allowed-post-stats", _HTTP + "not-found"],
    "DeleteTopic": [_HTTP + "topic-delete-no-arg", _HTTP + "topic-delete-unknown"],
    "EmptyTopic": [_HTTP + "topic-empty-invalid-name", _HTTP + "topic-empty"],
    "EmptyChannel": [_HTTP + "channel-empty-no-args", _HTTP + "channel-empty"],
    "Info": [_HTTP + "info"],
    "Stats": [
        _HTTP + "stats-topic-channel",
        _HTTP + "stats-unknown-channel",
        _HTTP + "stats-unknown-topic",
        _NODE + "statistics_with_and_without_their_parts",
    ],
    "ClientAttributes": [_NODE + "what_a_client_says_of_itself"],
    "StatsChannelLocking": [_NODE + "statistics_while_everybody_publishes"],
}

BEHAVIOUR: dict[str, list[str]] = {
    "Startup": [_NODE + "a_restart_goes_on_where_it_stopped"],
    "EphemeralTopicsAndChannels": [
        _DELIVERY + "ephemeral_channel_and_topic_leave_with_their_consumer"
    ],
    "PauseMetadata": [_NODE + "pauses_are_in_the_file_when_they_are_answered"],
    "Reconfigure": [_NODE + "nsqlookupds_change_while_it_runs"],
    "Cluster": [_NODE + "a_cluster_knows_its_topics"],
    "SetHealth": [_TROUBLE + "a_full_disk_refuses_serves_and_recovers"],
    "TopicHealth": [_TROUBLE + "a_failed_sync_ends_publishing_until_a_restart"],
    "ChannelHealth": [_TROUBLE + "a_log_that_cannot_be_read_is_tried_again"],
    "UnixSocketStartup": [_CONNECTIONS + "unix_sockets_for_both_protocols"],
    "GetTopic": [_HTTP + "topic-create", _HTTP + "topic-create-again"],
    "GetChannel": [_HTTP + "channel-create", _HTTP + "channel-create-again"],
    "Deletes": [
        _TCP + "channel-delete-closes-consumers",
        _TCP + "topic-delete-closes-consumers-not-producers",
    ],
    "DeleteLast": [_TCP + "delete-last-channel-accumulates"],
    "Pause": [_TCP + "topic-pause"],
    "PutMessage": [_TCP + "pub-ok"],
    "PutMessage2Chan": [_TCP + "two-channels-copies"],
    "InFlightWorker": [_DELIVERY + "many_in_flight_all_time_out"],
    "ChannelEmpty": [_TCP + "channel-empty-in-flight", _TCP + "deferred-empty"],
    "ChannelEmptyConsumer": [_DELIVERY + "emptying_a_channel_frees_its_consumer"],
    "MaxChannelConsumers": [_DELIVERY + "no_more_consumers_than_allowed"],
    "ConfigFlagParsing": [_CLI + "the_example_file_loads"],
}

LACKED_BY_GO: dict[str, list[str]] = {
    "one byte at a time": [_CONNECTIONS + "one_byte_at_a_time", _TCP + "fragmented-pub"],
    "SUB, RDY and PUB in one packet": [_CONNECTIONS + "everything_in_one_packet"],
    "CR LF": [_TCP + "cr-stripped", _TCP + "two-crs-only-one-stripped"],
    "a long line": [_TCP + "line-16384-with-lf", _TCP + "line-20000-no-lf"],
    "double spaces": [_TCP + "double-space-empty-topic"],
    "numbers that overflow": [
        _TCP + "rdy-wrap-negative",
        _TCP + "dpub-wrap-duration",
        _TCP + "req-wraps-to-zero",
    ],
    "IDENTIFY again": [
        _TCP + "identify-twice-msg-timeout-pump-keeps-first",
        _DELIVERY + "buffer_sizes_may_be_negotiated_again",
    ],
    "an error before the end although the client sends": [
        _CONNECTIONS + "an_error_arrives_although_the_client_goes_on_sending"
    ],
    "a slow consumer": [
        _DELIVERY + "a_consumer_that_does_not_read_holds_up_nobody",
        _TROUBLE + "a_client_that_never_reads_is_cut_off",
    ],
    "kill -9": ["crash/test_kill_loop.py::test_acknowledged_messages_survive_kills"],
    "a damaged file": [_NODE + "a_damaged_data_file_harms_nothing_else"],
    "snappy identifiers again": [_TCP + "snappy-stream-restarted-identifier"],
    "TLS 1.3 rejects a certificate": [
        _SECURITY + "a_client_without_a_certificate_sees_its_rejection_on_the_first_read"
    ],
    "pause and time-out": [_DELIVERY + "a_paused_channel_still_times_out"],
    "RDY below what is in flight": [_DELIVERY + "ready_lowered_below_what_is_in_flight"],
    "empty while in flight": [_DELIVERY + "emptying_a_channel_frees_its_consumer"],
    "two consumers, one leaves": [_DELIVERY + "what_a_departed_consumer_held_goes_to_another"],
    "ephemeral overflow": [_DELIVERY + "an_ephemeral_channel_keeps_what_memory_holds"],
    "HTTP in chunks, and Expect": [_HTTP + "pub-chunked", _HTTP + "expect-100"],
    "HTTP redirects": [_HTTP + "redirect-get/stats/", _HTTP + "redirect-post/pub/?topic=t"],
    "a semicolon in a query": [_HTTP + "pub-bad-query-semicolon"],
    "unix sockets": [_CONNECTIONS + "unix_sockets_for_both_protocols"],
    "IPv6": [_CONNECTIONS + "ipv6", _CONNECTIONS + "both_families_at_the_default_address"],
}

ALL = PROTOCOL | HTTP | BEHAVIOUR | LACKED_BY_GO
