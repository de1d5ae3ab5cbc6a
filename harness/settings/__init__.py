"""The settings of a project, and what a run or a campaign is asked to do."""
