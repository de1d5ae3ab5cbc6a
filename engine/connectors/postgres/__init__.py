"""PostgreSQL at the ends of a job: sinks and sources, by psycopg 3."""
