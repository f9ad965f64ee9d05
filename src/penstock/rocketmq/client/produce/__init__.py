"""The sending side of the client: producers, transactions, requests, traces."""
