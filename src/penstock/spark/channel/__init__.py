"""``mode=channel``: a channel of any nsqd as a stream, by files that are staged on the way."""
