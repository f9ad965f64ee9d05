"""Found by Spark itself: importing this registers ``format("rocketmq")``.

See ``pyspark_nsq``; a module has one source.
"""

from penstock.spark.rocketmq.source import RocketmqDataSource as DefaultSource

__all__ = ["DefaultSource"]
