"""The engine's local runtime as a system on trial, in a child process."""
