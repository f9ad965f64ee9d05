"""Messages on their way out by queue offset: pulls, the long poll, filters, committed offsets."""
