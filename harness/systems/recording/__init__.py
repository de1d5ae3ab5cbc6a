"""Event logs of real processes, and the driver of a job that writes one."""
