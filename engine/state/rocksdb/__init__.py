"""The backend ``rocksdb``: state in an embedded database on disk, for state larger than memory.

Only this package imports rocksdict, and only when the first backend is made.
"""
