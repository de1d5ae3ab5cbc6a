"""The forms in which rows leave and enter a job: JSON, CSV, Avro and Parquet."""
