"""The catalogue of planted bugs, one module for each part of the engine that they break."""
