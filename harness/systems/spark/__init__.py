"""The engine on Spark as a system under test."""
