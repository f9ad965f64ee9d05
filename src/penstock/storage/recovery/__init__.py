"""Opening files after a crash or damage: what they hold, what is reported."""
