"""Many scenarios on a pool of processes."""
