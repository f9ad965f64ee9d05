"""Messages that wait for a time: that of a delay level, or one that the message names."""
