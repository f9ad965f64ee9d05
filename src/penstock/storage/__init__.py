"""The durable log: disk, batches, segments, recovery, cursors. The only floor that calls fsync."""
