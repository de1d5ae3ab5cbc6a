"""The local runtime in several processes: workers that own subtasks, and a coordinator that owns none."""
