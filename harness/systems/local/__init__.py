"""The engine's local runtime as a system on trial, in a process of its own."""
