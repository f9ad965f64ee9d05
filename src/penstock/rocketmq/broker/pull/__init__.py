"""Messages on their way out by queue offset: pulls, the long poll, offsets as clients ask."""
