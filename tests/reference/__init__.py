"""The pages of docs/reference, which must say all that the programs declare."""
