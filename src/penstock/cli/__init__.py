"""Console entry points, one file each."""

import gc

# A program begins with imports, of which nearly all stays: to look for garbage after every 700
# objects takes a tenth of its start. Of what a busy loop makes, nearly all dies young.
gc.set_threshold(50_000)
