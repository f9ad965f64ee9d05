"""The programs that people and make run beside Penstock's own (tools/README.md)."""
