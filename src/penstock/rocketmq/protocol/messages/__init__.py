"""Messages as they are stored and sent: frames, properties, batches."""
