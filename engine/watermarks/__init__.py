"""Event time: how it is told from the records, and how it is put together from several inputs.

``strategy`` and ``generators`` are what a user sees: where a record's timestamp comes from and how far behind
the highest one a stream may be. ``stamping`` applies them to records. ``valve`` puts the channels of one
input together, ``combined`` the inputs of an operator or the splits of a source.

Nothing here is in any snapshot: after a restore event time begins again at MIN_WATERMARK.
"""
