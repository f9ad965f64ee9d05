"""The sink ``format("rocketmq")``: batches of messages to the brokers that name servers know."""
