"""The life of a job: attempts, restarts, deployment."""
