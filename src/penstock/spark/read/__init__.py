"""Reading: batches and streams as Spark asks for them."""
