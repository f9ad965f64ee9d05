"""The statistics of nsqd: /stats, packed, Prometheus, statsd."""
