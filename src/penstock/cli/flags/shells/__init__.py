"""Scripts for each shell: a program's flags, or its commands and the flags of each."""
