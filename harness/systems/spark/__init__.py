"""The engine on Spark as a system on trial."""
