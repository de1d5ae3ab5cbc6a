"""The shrinker: it makes a failing scenario smaller while the failure keeps its signature."""
