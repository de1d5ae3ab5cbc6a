"""A disk with a volatile cache: a sync makes changes durable, a power cut loses any of the others.

The rules this module lives by (as in ALICE, Pillai et al., OSDI 2014):

- Data written since the last sync of its file may be there, be missing, be cut short, or be zeros: of several
  writes all up to any one, or, unless they survive in order, any of them.
- A name made, changed or removed since the last sync of its folder may be changed or not, in any subset. Only
  changes of the same name survive in order. A rename is atomic.
- The sync of a file says nothing of its name, the sync of a folder nothing of the data of its files, nor of
  its own name in the folder above.
- No order is assumed between different names, different folders, or data and names. ext4 and xfs promise
  more: they write names in order, and ext4 the data before the name. The engine must not rely on it.
- Renames are within one folder: the engine makes no others.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final, TypeAlias

Image: TypeAlias = Mapping[str, bytes | None]
"""A disk by path: the content of each file, None for a folder."""

EVERYTHING_KEPT: Final = 1.0
NOTHING_KEPT: Final = 0.0
_SHARES: Final = (NOTHING_KEPT, 0.3, 0.5, 0.8, EVERYTHING_KEPT)


class _File:
    """A file: its content in the cache, on the disk, and the changes in between."""

    __slots__ = ("content", "durable", "pending")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.pending: list[tuple[int, bytes | None]] = []
        """(offset, data) of each write; (size, None) of each truncation."""

    def change(self, offset: int, data: bytes | None) -> None:
        self.pending.append((offset, data))
        _apply(self.content, offset, data)

    def sync(self) -> None:
        if self.pending:
            self.durable = bytes(self.content)
            self.pending.clear()


class _Folder:
    """A folder: its names in the cache, on the disk, and the changes in between."""

    __slots__ = ("durable", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, _File | _Folder] = {}
        self.durable: dict[str, _File | _Folder] = {}
        self.pending: list[dict[str, _File | _Folder | None]] = []
        """What each change gave to its names; None: it removed the name."""

    def change(self, given: dict[str, _File | _Folder | None]) -> None:
        self.pending.append(given)
        _give(self.names, given)

    def sync(self) -> None:
        if self.pending:
            self.durable = dict(self.names)
            self.pending.clear()


class PowerCut:
    """Draws what survives of the changes that are not synced."""

    def __init__(
        self, random: Random, names: float | None = None, data: float | None = None, *, in_order: bool = True
    ) -> None:
        self._random = random
        self._in_order = in_order
        self._names = _SHARES[self._below(len(_SHARES))] if names is None else names
        self._data = _SHARES[self._below(len(_SHARES))] if data is None else data

    def _below(self, limit: int) -> int:
        """Draw a whole number by the one method of a random source that Python keeps stable."""
        return int(self._random.random() * limit)

    def names_of(self, folder: _Folder) -> dict[str, _File | _Folder]:
        """Return the names in a folder after the cut."""
        kept = dict(folder.durable)
        lost: set[str] = set()
        for given in folder.pending:
            if lost.isdisjoint(given) and self._random.random() < self._names:
                _give(kept, given)
            else:
                lost.update(given)
        return kept

    def content_of(self, file: _File) -> bytes:
        """Return the content of a file after the cut."""
        if not file.pending or self._random.random() < self._data:
            return bytes(file.content)
        content = bytearray(file.durable)
        if not self._in_order:
            for offset, data in file.pending:
                if self._random.random() < self._data:
                    _apply(content, offset, data)
                else:
                    self._tear(content, offset, data)
            return bytes(content)
        whole = self._below(len(file.pending))
        for offset, data in file.pending[:whole]:
            _apply(content, offset, data)
        self._tear(content, *file.pending[whole])
        return bytes(content)

    def _tear(self, content: bytearray, offset: int, data: bytes | None) -> None:
        """Apply a write in part, as zeros, or not at all."""
        if data is not None and self._random.random() < 0.5:
            cut = data[: self._below(len(data) + 1)]
            _apply(content, offset, bytes(len(cut)) if self._random.random() < 0.5 else cut)


class VolatileDisk:
    """The file calls on a simulated disk; ``root`` is a durable, empty folder at the beginning."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._folder = _Folder()
        self._open: dict[int, tuple[_File | _Folder, int]] = {}
        """By descriptor, what is open and the position in it."""
        self._next = 3

    # File calls.

    def open(self, path: str, flags: int) -> int:
        """Open or create a file, or open a folder; outside of this disk only folders, which lose nothing."""
        if not self.holds(path) and flags & os.O_DIRECTORY:
            return self._opened(_Folder())
        folder, name = self._place(path)
        node = self._folder if folder is None else folder.names.get(name)
        if node is None:
            if not flags & os.O_CREAT or folder is None:
                raise _error(errno.ENOENT, path)
            node = _File()
            folder.change({name: node})
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        elif isinstance(node, _Folder) and flags & (os.O_WRONLY | os.O_RDWR):
            raise _error(errno.EISDIR, path)
        elif isinstance(node, _File) and flags & os.O_DIRECTORY:
            raise _error(errno.ENOTDIR, path)
        elif isinstance(node, _File) and flags & os.O_TRUNC and node.content:
            node.change(0, None)
        return self._opened(node)

    def _opened(self, node: _File | _Folder) -> int:
        descriptor = self._next
        self._next += 1
        self._open[descriptor] = (node, 0)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        self._open.pop(descriptor, None)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Write at the descriptor's position."""
        node, position = self._open[descriptor]
        self.write_at(descriptor, position, bytes(data))
        self._open[descriptor] = (node, position + len(data))
        return len(data)

    def write_at(self, descriptor: int, offset: int, data: bytes) -> None:
        """Write at an offset."""
        self._file(descriptor).change(offset, data)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file off."""
        self._file(descriptor).change(size, None)

    def fsync(self, descriptor: int) -> None:
        """Make the content of a file durable, or the names in a folder."""
        self._open[descriptor][0].sync()

    def read_file(self, path: str) -> bytes:
        """Return the whole content of a file."""
        node = self._find(path)
        if not isinstance(node, _File):
            raise _error(errno.ENOENT if node is None else errno.EISDIR, path)
        return bytes(node.content)

    def size_of(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if there is none."""
        node = self._find(path)
        return None if node is None else len(node.content) if isinstance(node, _File) else 0

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder; outside of this disk, on the machine's."""
        return self._find(path) is not None if self.holds(path) else os.path.lexists(path)

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder; outside of this disk, on the machine's."""
        return isinstance(self._find(path), _Folder) if self.holds(path) else os.path.isdir(path)

    def is_same_content(self, one: str, other: str) -> bool:
        """Return whether two paths are one file, or two files of the same content."""
        return self.read_file(one) == self.read_file(other)

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, each with whether it is a folder."""
        node = self._find(folder)
        if not isinstance(node, _Folder):
            raise _error(errno.ENOENT if node is None else errno.ENOTDIR, folder)
        return [(name, isinstance(each, _Folder)) for name, each in node.names.items()]

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in its folder, replacing the file that has it."""
        folder, name = self._existing(source)
        other, new_name = self._place(target)
        if folder is not other:
            raise _error(errno.EXDEV, target)
        folder.change({name: None, new_name: folder.names[name]})

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; a file outside of this disk is on another one."""
        if not self.holds(source):
            raise _error(errno.EXDEV if os.path.lexists(source) else errno.ENOENT, source)
        from_folder, name = self._existing(source)
        folder, new_name = self._place(target)
        assert folder is not None
        if new_name in folder.names:
            raise _error(errno.EEXIST, target)
        folder.change({new_name: from_folder.names[name]})

    def unlink(self, path: str) -> None:
        """Remove the name of a file."""
        folder, name = self._existing(path)
        if isinstance(folder.names[name], _Folder):
            raise _error(errno.EISDIR, path)
        folder.change({name: None})

    def mkdir(self, folder: str) -> None:
        """Make a folder."""
        parent, name = self._place(folder)
        if parent is None or name in parent.names:
            raise _error(errno.EEXIST, folder)
        parent.change({name: _Folder()})

    def rmdir(self, folder: str) -> None:
        """Remove an empty folder."""
        parent, name = self._existing(folder)
        node = parent.names[name]
        if isinstance(node, _File) or node.names:
            raise _error(errno.ENOTDIR if isinstance(node, _File) else errno.ENOTEMPTY, folder)
        parent.change({name: None})

    # The disk as a whole.

    def holds(self, path: str) -> bool:
        """Return whether a path is on this disk."""
        return path == self.root or path.startswith(f"{self.root}/")

    def live(self) -> dict[str, bytes | None]:
        """Return the disk as running processes see it."""
        return dict(_walk(self._folder, "", lambda folder: folder.names, lambda file: bytes(file.content)))

    def after(self, cut: PowerCut) -> dict[str, bytes | None]:
        """Return the disk as it may be found after a power cut; the disk itself stays as it is."""
        contents: dict[int, bytes] = {}

        def content_of(file: _File) -> bytes:
            # A file with two names has one content.
            if id(file) not in contents:
                contents[id(file)] = cut.content_of(file)
            return contents[id(file)]

        return dict(_walk(self._folder, "", cut.names_of, content_of))

    def lose_power(self, cut: PowerCut) -> None:
        """Become the disk as it is found after a power cut. All that is open is closed."""
        self.become(self.after(cut))

    def become(self, image: Image) -> None:
        """Hold what an image holds, all of it durable."""
        self._folder = _Folder()
        self._open.clear()
        for path in sorted(image):
            folder, name = self._place(f"{self.root}/{path}")
            assert folder is not None
            content = image[path]
            if content is None:
                folder.names[name] = folder.durable[name] = _Folder()
            else:
                file = folder.names[name] = folder.durable[name] = _File()
                file.durable = content
                file.content[:] = content

    def _file(self, descriptor: int) -> _File:
        node = self._open[descriptor][0]
        assert isinstance(node, _File)
        return node

    def _find(self, path: str) -> _File | _Folder | None:
        node: _File | _Folder | None = self._folder
        for name in path[len(self.root) + 1 :].split("/") if path != self.root else ():
            node = node.names.get(name) if isinstance(node, _Folder) else None
        return node

    def _place(self, path: str) -> tuple[_Folder | None, str]:
        """Return the folder of a path and the name in it; no folder for the root."""
        if path == self.root:
            return None, ""
        above, _, name = path.rpartition("/")
        folder = self._find(above)
        if not isinstance(folder, _Folder):
            raise _error(errno.ENOENT if folder is None else errno.ENOTDIR, path)
        return folder, name

    def _existing(self, path: str) -> tuple[_Folder, str]:
        folder, name = self._place(path)
        if folder is None or name not in folder.names:
            raise _error(errno.ENOENT, path)
        return folder, name


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


def _give(names: dict[str, _File | _Folder], given: Mapping[str, _File | _Folder | None]) -> None:
    for name, node in given.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _walk(
    folder: _Folder,
    prefix: str,
    names_of: Callable[[_Folder], Mapping[str, _File | _Folder]],
    content_of: Callable[[_File], bytes],
) -> Iterator[tuple[str, bytes | None]]:
    for name, node in names_of(folder).items():
        path = f"{prefix}{name}"
        if isinstance(node, _Folder):
            yield path, None
            yield from _walk(node, f"{path}/", names_of, content_of)
        else:
            yield path, content_of(node)
