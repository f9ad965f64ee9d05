"""mqadmin: RocketMQ's administration tool, with the sub-commands of upstream's 4.9."""
