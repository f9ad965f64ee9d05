"""The data sources that Spark meets, ``nsq`` and ``rocketmq``: source, sink and columns of each."""
