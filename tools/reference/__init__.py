"""The pages of docs/reference, made of what the programs declare."""
