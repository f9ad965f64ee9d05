"""nsqd: the daemon that takes, keeps and delivers messages in NSQ's dialect."""
