"""Messages on their way in: sent, sent back, replied to."""
