"""The data source ``rocketmq``: real queues of Penstock's and of Java's brokers."""
