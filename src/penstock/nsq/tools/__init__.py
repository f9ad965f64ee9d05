"""The six programs of NSQ: nsq_stat, nsq_tail, nsq_to_file, nsq_to_http, nsq_to_nsq, to_nsq.

What they share: ``flags`` (the command line and the client's options), ``run`` (signals, the end,
errors as one line), ``lines`` (what they log, in go-nsq's words). A tool is a module or a package
here with ``run(argv) -> exit code``.
"""
