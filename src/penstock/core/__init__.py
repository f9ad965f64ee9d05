"""Values that every other package builds on: units, names, options, errors, clocks."""
