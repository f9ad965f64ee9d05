"""Messages that wait for a time: delay levels, and times of their own."""
