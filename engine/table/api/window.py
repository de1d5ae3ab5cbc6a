"""Windows of groups and of OVER, under PyFlink's names (pyflink.table.window)."""

from __future__ import annotations

from typing import Any

from onceproof.engine.table.api.recorded import Recorded


class Window(Recorded):
    """A window that is being described; each method says one thing more of it."""

    def _next(self, name: str, *arguments: Any) -> Window:
        return Window({"on": self, "name": name}, arguments)

    def on(self, time_field: Any) -> Window:
        """Set the time attribute."""
        return self._next("on", time_field)

    def every(self, slide: Any) -> Window:
        """Set the slide."""
        return self._next("every", slide)

    def alias(self, alias: str) -> Window:
        """Set the name under which the window is grouped, or an OVER refers to it."""
        return self._next("alias", alias)

    def order_by(self, order_by: Any) -> Window:
        """Set the time attribute of an OVER."""
        return self._next("order_by", order_by)

    def preceding(self, preceding: Any) -> Window:
        """Set the beginning of the frame."""
        return self._next("preceding", preceding)

    def following(self, following: Any) -> Window:
        """Set the end of the frame."""
        return self._next("following", following)


class Tumble:
    """Windows of one length, one after the other (PyFlink: Tumble)."""

    @staticmethod
    def over(size: Any) -> Window:
        """Set the length."""
        return Window({"class": "Tumble", "name": "over"}, (size,))


class Slide:
    """Windows of one length that overlap (PyFlink: Slide)."""

    @staticmethod
    def over(size: Any) -> Window:
        """Set the length."""
        return Window({"class": "Slide", "name": "over"}, (size,))


class Session:
    """Windows that a gap ends (PyFlink: Session)."""

    @staticmethod
    def with_gap(gap: Any) -> Window:
        """Set the gap."""
        return Window({"class": "Session", "name": "with_gap"}, (gap,))


class Over:
    """The rows around a row (PyFlink: Over)."""

    @staticmethod
    def order_by(order_by: Any) -> Window:
        """Set the time attribute."""
        return Window({"class": "Over", "name": "order_by"}, (order_by,))

    @staticmethod
    def partition_by(*partition_by: Any) -> Window:
        """Set the columns of the partitions."""
        return Window({"class": "Over", "name": "partition_by"}, partition_by)
