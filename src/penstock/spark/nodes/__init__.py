"""The nodes that hold the topics, asked over HTTP."""
