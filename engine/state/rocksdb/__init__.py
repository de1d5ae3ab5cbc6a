"""The backend ``rocksdb``: state in an embedded database on disk, for more than memory holds.

It is the only home of rocksdict, which is imported when the first backend is made and never before.
"""
