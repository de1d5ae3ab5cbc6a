"""The page about programs, done as a reader does it: its files, its command, what it says will happen."""

from __future__ import annotations
