"""Archives written from Arrow: tasks write the files, and Spark plans ranges of offsets."""
