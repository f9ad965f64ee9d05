"""The HTTP side of nsqd: publishing, administration, browsing, the log API."""
