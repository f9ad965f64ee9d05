"""Sub-commands of messages: found, printed, sent, traced."""
