"""What backwards have added to the gradients of an optimizer since its last step."""

from __future__ import annotations


class Round:
    """From one step to the next; sites are those of backwards."""

    def __init__(self) -> None:
        self.is_fed = self.has_leftover = False
        self.backwards = 0
        """How many have added something;"""
        self.last = 0
        """and where the last one was."""
        self.sites: set[int] = set()
        """Where what has not been cleared came from."""
        self.stale_sites: set[int] = set()
        """Those that added to what an earlier step had used."""
        self.feeders: set[int] = set()
        """The threads whose backwards they were."""
        self._spent: set[int] = set()

    @property
    def is_partly_spent(self) -> bool:
        """Whether another optimizer has stepped on a backward that fed this one as well."""
        return bool(self._spent)

    def add(self, site: int, thread: int, stale: bool) -> None:
        """A backward has added to the gradients."""
        self.is_fed = True
        self.backwards += 1
        self.last = site
        self.sites.add(site)
        self.feeders.add(thread)
        if stale:
            self.stale_sites.add(site)

    def clear(self) -> None:
        """The gradients have been cleared: nothing is left of what backwards have added."""
        self.sites.clear()
        self._spent.clear()
        self.has_leftover = False

    def fed_alone(self) -> None:
        """The last backward was for this optimizer only. What others had stepped on by then is a leftover."""
        self.has_leftover |= self.is_partly_spent

    def spend(self, other: Round) -> None:
        """Another optimizer has stepped: the backwards that fed it have done what they were for."""
        self._spent |= self.sites & other.sites
