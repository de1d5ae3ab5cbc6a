"""Queries as people write them: a user's Python file on trial, unedited."""
