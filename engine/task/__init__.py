"""One subtask as a machine: its chain of operators, its barriers, its outputs."""
