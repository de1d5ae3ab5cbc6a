"""The bodies of the commands: each imports what it needs, so that no command pays for another."""
