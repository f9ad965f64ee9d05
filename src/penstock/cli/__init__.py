"""Console entry points, one file each."""

import gc

# A program begins with imports, and nearly all that they make stays: to look for garbage among it
# takes a tenth of the start. ``net.loop`` has it looked for more often, once the program runs.
gc.set_threshold(200_000)
