"""The stream API: environments and streams, from which the job graph is built (pyflink.datastream)."""
