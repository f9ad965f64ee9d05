"""The six programs of NSQ: nsq_stat, nsq_tail, nsq_to_file, nsq_to_http, nsq_to_nsq, to_nsq.

A tool is a module or a package here with ``run(argv) -> exit code``; ``entry`` starts it. Shared:
``flags`` (the command line and the client's options), ``consumers``, ``run`` (signals and the end),
``errors`` (how a tool ends, in one line), ``lines`` (what they log, in go-nsq's words).
``forwarding`` and ``timings`` are of the two that pass messages on, ``cluster`` asks daemons over
HTTP, ``stdout`` is for output without end.
"""
