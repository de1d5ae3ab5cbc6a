"""The files that one bucket of a monitored folder knows, whatever they are called by now.

The rules this module lives by:

- A file is its content: a mark of what was read of it, or of its beginning while nothing was. It keeps that
  over a rename, a rotation, a copy to another machine. Its name, inode and times are remembered to find it
  again without reading it, and to tell a renamed file from another one with the same content.
- A known file is under its name as long as the content there begins with what was read. If there is more, the
  file has grown, and the rest is read.
- A known file whose name is gone, or has other content, is looked for under the names that are new: it is the
  file with its inode and its content. If its name or inode has other content, a copy of it is taken for it (a
  log that was copied and truncated, or rotated on another machine). So is its compressed form, and any copy
  of a file that was not read to its end.
- What is left is new, a known name with other content as well. A young file that is the copy of a known one
  waits for a look: the known one may be about to be truncated.
- Names of one inode are one file, under the name that is known.
- A known file that is not found stays known, as a rename may have been under way while the names were listed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from hashlib import sha256
from typing import Any, Final, NamedTuple

from onceproof.engine.connectors.file_content import (
    HEAD_BYTES,
    ChangedFile,
    Content,
    Mark,
    UnreadableFile,
    digest_of,
    is_packed,
    mark_of,
    unreadable,
)

PACKED_REST_NS: Final = 5_000_000_000
"""How long a compressed file must have been left alone: packers write under the final name."""

_HIDDEN: Final = (".", "_")


class Stamp(NamedTuple):
    """What the file system says of a file: as long as it is the same, the content is."""

    identity: tuple[int, int]
    """What all names of the file share: its device and inode."""
    size: int
    changed_ns: int
    """The time of the last change of its content."""
    touched_ns: int
    """The time of the last change of its content, name or owner."""


class SeenFile(NamedTuple):
    """What is known of a file after a look into it."""

    stamp: Stamp
    key: str
    """What it shares with all that could be the same file: its first line with a record, in digest."""
    beginning: Mark


class Listing(NamedTuple):
    """The visible files of a moment."""

    stamps: Mapping[str, Stamp]
    """By path, the oldest first."""
    identities: Set[tuple[int, int]]

    def names(self) -> dict[str, tuple[int, int]]:
        """Return which file each path names."""
        return {path: stamp.identity for path, stamp in self.stamps.items()}


class KnownFile:
    """A file that was found.

    ``position`` is that of a reader of the file; None: nothing was read, or an earlier version has read it,
    and nothing is known of its content. ``beginning`` is a mark of what the file had when it was found.
    """

    __slots__ = ("beginning", "is_placed", "is_read", "key", "path", "position", "stamp", "tried")

    def __init__(self, path: str, stamp: Stamp | None, key: str, position: Any, beginning: Any) -> None:
        self.path = path
        self.stamp = stamp
        self.key = key
        self.position = position
        self.beginning = beginning
        self.is_read = False
        """Whether it was read to its end, as far as is known."""
        self.is_placed = False
        """Whether the last look found it under its path."""
        self.tried: object = None
        """When it was last read to its end."""

    @classmethod
    def restored(cls, stored: Any, is_read: bool) -> KnownFile:
        """Return the file of a position; in those of earlier versions it is just a path."""
        path, stamp, key, position, beginning = (
            (stored, None, "", None, None) if isinstance(stored, str) else stored
        )
        at = None if stamp is None else Stamp((stamp[0], stamp[1]), *stamp[2:])
        known = cls(path, at, key, position, beginning)
        known.is_read = is_read
        return known

    def stored(self) -> list[Any]:
        """Return the file as plain data."""
        stamp = None if self.stamp is None else [*self.stamp.identity, *self.stamp[1:]]
        begun = self.position is not None and len(self.position) > 2
        return [self.path, stamp, self.key, self.position, None if begun else self.beginning]

    @property
    def mark(self) -> Mark | None:
        """What its content begins with; None: not known."""
        position = self.position
        mark: Mark | None = self.beginning if position is None or len(position) < 3 else position[2]
        return mark

    @property
    def end(self) -> int:
        """How much of it was read."""
        return 0 if self.position is None or self.mark is None else self.mark[0]

    def is_in(self, content: Content) -> bool:
        """Return whether a file that is open has its content."""
        mark = self.mark
        if mark is None:
            return True
        try:
            content.check(mark)
        except ChangedFile:
            return False
        return True

    def may_be(self, path: str, stamp: Stamp, listing: Listing) -> bool:
        """Return whether a file with another name can be this one, if it has its content."""
        mine = self.stamp
        if not self.is_read:
            return True
        if mine is not None and mine.identity == stamp.identity:
            # A new file may have the inode of one that was deleted, but not its time.
            return mine.changed_ns == stamp.changed_ns or mine.size < stamp.size
        has_other_content = self.path in listing.stamps or (
            mine is not None and mine.identity in listing.identities
        )
        return has_other_content or is_packed(path) != is_packed(self.path)


class Bucket:
    """The files of a folder that belong to one of several readers.

    Args:
        paths: files, and folders that are read with all folders below them.
        single_files: those of them that are no folders, and may be missing for a while.
        number: of the bucket.
        buckets: how many there are.
        by_content: whether the first line decides in which bucket a file is, so that it stays there under any
            name; if not, the path does, as in earlier versions.
        head_lines: how many lines of a file come before its first record; None: it is not made of lines.
        seen: the files that were looked into before, by identity; shared by the buckets of a process.
        folder: where relative paths are; "": the working folder.
    """

    def __init__(
        self,
        paths: Iterable[str],
        single_files: frozenset[str],
        number: int,
        buckets: int,
        by_content: bool,
        head_lines: int | None,
        seen: dict[tuple[int, int], SeenFile],
        folder: str = "",
    ) -> None:
        self._paths = tuple(paths)
        self._single_files = single_files
        self._number = number
        self._buckets = buckets
        self._by_content = by_content
        self._head_lines = head_lines
        self._seen = seen
        self._folder = folder

    def opened(self, path: str, stamp: Stamp) -> Content | None:
        """Open a file; return None for one that was deleted or renamed since it was listed."""
        try:
            content = Content(os.path.join(self._folder, path))
            if content.identity == stamp.identity:
                return content
            content.close()
            return None
        except UnreadableFile as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def list(self) -> Listing:
        """Return the visible files, the oldest first. Raises UnreadableFile."""
        listing = listing_of(self._paths, self._single_files, self._folder)
        identities = {stamp.identity for stamp in listing.values()}
        if len(self._seen) > 2 * len(listing):
            for identity in self._seen.keys() - identities:
                del self._seen[identity]
        return Listing(listing, identities)

    def may_have(self, path: str) -> bool:
        """Return whether a file can be in this bucket, before its content is known."""
        return self._by_content or bucket_of(path, self._buckets) == self._number

    def look_into(self, path: str, stamp: Stamp, is_young: bool) -> SeenFile | None:
        """Look into a file, unless it is as it was at an earlier look.

        None: the file is of another bucket, has no record yet, or its first line is not complete yet.
        """
        seen = self._seen.get(stamp.identity)
        if seen is None or seen.stamp != stamp:
            content = self.opened(path, stamp)
            if content is None:
                return None
            try:
                head = content.head()
            finally:
                content.close()
            key = self._key_of(head, is_young)
            if key is None:
                return None
            seen = self._seen[stamp.identity] = SeenFile(stamp, key, mark_of(head, b"", len(head)))
        if self._by_content and int(seen.key, 16) % self._buckets != self._number:
            return None
        return seen

    def _key_of(self, head: bytes, is_young: bool) -> str | None:
        """Return the digest of the first line with a record, which stays the same while the file grows."""
        if self._head_lines is None:
            return digest_of(head) if head else None
        begin = 0
        for _ in range(self._head_lines):
            begin = head.find(b"\n", begin) + 1
            if not begin:
                return None
        end = head.find(b"\n", begin) + 1
        if end:
            return digest_of(head[:end])
        if len(head) == HEAD_BYTES or (begin < len(head) and not is_young):
            return digest_of(head)
        return None


class KnownFiles:
    """The known files of a bucket, and the look for others."""

    def __init__(self, bucket: Bucket, interval_ms: int, known: Iterable[KnownFile]) -> None:
        self._bucket = bucket
        self._interval_ns = interval_ms * 1_000_000
        self.files: list[KnownFile] = list(known)
        self._listing = Listing({}, frozenset())
        """Of the last look."""

    def is_young(self, stamp: Stamp, now_ns: int) -> bool:
        """Return whether a file was changed so recently that its writer may still be at work."""
        return abs(now_ns - stamp.changed_ns) < self._interval_ns

    def is_settled(self) -> bool:
        """Return whether each path names the same file as at the last look."""
        return self._listing.names() == self._bucket.list().names()

    def look(self, now_ns: int) -> list[KnownFile]:
        """Find the known files again; return those that are new or have more to read, the oldest first."""
        listing = self._bucket.list()
        self._listing = listing
        placed: dict[tuple[int, int], KnownFile] = {}
        # A file that is where its inode says is found first: another one of that name need not be read.
        for known in sorted(
            self.files, key=lambda known: not _is_same(known, listing.stamps.get(known.path))
        ):
            stamp = listing.stamps.get(known.path)
            known.is_placed = (
                stamp is not None and stamp.identity not in placed and self._is_there(known, stamp)
            )
            if known.is_placed:
                assert stamp is not None
                placed[stamp.identity] = known
                known.stamp = stamp
        alike: dict[str, list[KnownFile]] = defaultdict(list)
        for known in self.files:
            alike[known.key].append(known)
        for path, stamp in listing.stamps.items():
            if (
                stamp.identity in placed
                or not self._bucket.may_have(path)
                or self._is_packing(path, stamp, now_ns)
            ):
                continue
            seen = self._bucket.look_into(path, stamp, self.is_young(stamp, now_ns))
            if seen is None:
                continue
            found = self._identify(path, seen, alike[seen.key], now_ns)
            if found is not None:
                placed[stamp.identity] = found
        found_now = dict.fromkeys(
            placed[each.identity] for each in listing.stamps.values() if each.identity in placed
        )
        return [known for known in found_now if self._has_more(known, now_ns)]

    def _is_packing(self, path: str, stamp: Stamp, now_ns: int) -> bool:
        return abs(now_ns - stamp.changed_ns) < PACKED_REST_NS and is_packed(path)

    def _has_more(self, known: KnownFile, now_ns: int) -> bool:
        if known.position is None:
            return not known.is_read
        stamp = known.stamp
        assert stamp is not None
        if stamp.size <= known.end or is_packed(known.path):
            return False
        return known.tried != (stamp, self.is_young(stamp, now_ns))

    def _is_there(self, known: KnownFile, stamp: Stamp) -> bool:
        """Return whether a known file is still under its path; learn the content of one that has no mark."""
        if known.stamp == stamp and known.mark is not None:
            return True
        content = self._bucket.opened(known.path, stamp)
        if content is None:
            return False
        try:
            if known.mark is None:
                end = 0 if is_packed(known.path) else content.look()
                known.beginning = content.mark(end)
                if known.is_read:
                    # An earlier version has read it: how much it had then is not known.
                    known.position = (end, 0, known.beginning)
            if not known.key:
                seen = self._bucket.look_into(known.path, stamp, False)
                known.key = "" if seen is None else seen.key
            return known.is_in(content)
        finally:
            content.close()

    def _identify(self, path: str, seen: SeenFile, alike: list[KnownFile], now_ns: int) -> KnownFile | None:
        """Return the known file that is now under a path, or a new one; None: it must wait for a look."""
        stamp = seen.stamp
        missing = [each for each in alike if not each.is_placed and each.may_be(path, stamp, self._listing)]
        missing.sort(key=lambda known: (not _is_same(known, stamp), -known.end))
        is_fresh = abs(now_ns - stamp.touched_ns) < self._interval_ns
        originals = [each for each in alike if is_fresh and each.is_placed and each.end]
        if missing or originals:
            content = self._bucket.opened(path, stamp)
            if content is None:
                return None
            try:
                found = next((known for known in missing if known.is_in(content)), None)
                if found is not None:
                    found.path, found.stamp, found.is_placed = path, stamp, True
                    return found
                if any(known.is_in(content) for known in originals):
                    return None
            finally:
                content.close()
        known = KnownFile(path, stamp, seen.key, None, seen.beginning)
        known.is_placed = True
        self.files.append(known)
        alike.append(known)
        return known


def _is_same(known: KnownFile, stamp: Stamp | None) -> bool:
    return stamp is not None and known.stamp is not None and known.stamp.identity == stamp.identity


def listing_of(
    paths: Iterable[str], may_be_missing: frozenset[str] = frozenset(), folder: str = ""
) -> dict[str, Stamp]:
    """Return the visible files at and below ``paths``, the oldest first. Raises UnreadableFile.

    Relative paths are in ``folder``, and what is below them is relative as well; "": the working folder.
    """
    found: dict[str, Stamp] = {}
    for path in paths:
        place = os.path.join(folder, path)
        try:
            if os.path.isdir(place):
                found.update((path + file[len(place) :], stamp) for file, stamp in _files_below(place))
            else:
                found[path] = _stamp_of(os.stat(place))
        except OSError as error:
            if path in may_be_missing and isinstance(error, FileNotFoundError):
                continue
            raise unreadable(place, error) from error
    return dict(sorted(found.items(), key=lambda item: (item[1].changed_ns, item[0])))


def _files_below(folder: str) -> Iterator[tuple[str, Stamp]]:
    """Yield each file; what is deleted meanwhile is left out."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_HIDDEN):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    yield from _files_below(entry.path)
                elif entry.is_file():
                    yield entry.path, _stamp_of(entry.stat())
            except FileNotFoundError:
                continue


def _stamp_of(status: os.stat_result) -> Stamp:
    identity = status.st_dev, status.st_ino
    return Stamp(identity, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def bucket_of(path: str, buckets: int) -> int:
    """Return the bucket of a path, the same in every process."""
    return int.from_bytes(sha256(os.fsencode(path)).digest()[:8], "big") % buckets
