"""An object store whose requests are late, repeated or lost, and processes of one job that share it."""
