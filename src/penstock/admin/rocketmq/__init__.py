"""RocketMQ in nsqadmin: name servers and brokers, asked over their own protocol."""
