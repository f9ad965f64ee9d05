"""HTTP clients, asyncio's and blocking ones, over one reader of answers."""
