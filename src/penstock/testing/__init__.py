"""What tests of Penstock, and of what is built on it, can use: daemons, clocks, disks."""
