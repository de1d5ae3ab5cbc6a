"""Event time: timestamps, watermark generation, and the combination of watermarks.

``strategy`` and ``generators`` are the public API: where timestamps come from, and how watermarks follow from
them. ``stamping`` applies a strategy to records. ``valve`` combines the channels of one input, ``combined``
the inputs of an operator or the splits of a source.

No watermark is in a snapshot: after a restore, event time begins again at MIN_WATERMARK.
"""
