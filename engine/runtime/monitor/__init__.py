"""What is seen of a running job: readings of its tasks, its REST API and page, its reporters of metrics."""
