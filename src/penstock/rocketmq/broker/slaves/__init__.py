"""A broker and its slaves: following a master, refusing what only it may do."""
