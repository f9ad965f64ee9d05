"""The sub-commands of mqadmin, a module for each family: ``run(admin, given, out)`` functions."""
