"""Disks that lose power: a model of what is durable, recorded file calls, and the disks rebuilt from them."""
