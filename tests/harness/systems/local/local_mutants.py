"""Bugs planted into code that runs only in real processes."""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.connectors.file_sink import FileSinkFunction, Transaction
from onceproof.engine.connectors.part_files import PartFile
from onceproof.harness.model.mutants import Reached, mutant, replaced


@mutant(
    id="pending-sought-in-the-new-folder",
    breaks="no_error",
    summary="a file sink looks for the files that a checkpoint lists in the folder where it writes now",
)
def pending_sought_in_the_new_folder(reached: Reached) -> Iterator[None]:
    """They were prepared by a process that wrote into another folder, and are taken for lost."""
    listed = FileSinkFunction._listed

    def only_here(self: FileSinkFunction, transaction: Transaction) -> tuple[PartFile, list[str]]:
        part, folders = listed(self, transaction)
        if len(folders) > 1:
            reached()
        return part, folders[-1:]

    with replaced(FileSinkFunction, "_listed", only_here):
        yield
