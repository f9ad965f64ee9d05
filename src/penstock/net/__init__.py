"""The asyncio shell that every daemon shares: the loop, tasks, listeners, HTTP on both sides."""
