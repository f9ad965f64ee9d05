"""The pages of docs as tables of Python: what is written into them, and what shows it."""
