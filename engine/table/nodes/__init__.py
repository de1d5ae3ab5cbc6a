"""The translators of nodes, one module for an area; ``translation.NODE_MODULES`` lists them."""
