"""Databases at the ends of a job: options, sinks over any DB-API driver, what exactly-once sinks share."""
