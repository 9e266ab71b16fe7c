"""The contributions of backwards to the gradients of an optimizer since its last step."""

from __future__ import annotations


class Round:
    """From one step to the next; sites are those of backwards."""

    def __init__(self) -> None:
        self.is_fed = self.has_leftover = False
        self.backwards = 0
        """The number of backwards that added something,"""
        self.last = 0
        """and the site of the last one."""
        self.sites: set[int] = set()
        """Sites of backwards whose gradients have not been cleared."""
        self.stale_sites: set[int] = set()
        """Sites of backwards that added to gradients which an earlier step had used."""
        self.feeders: set[int] = set()
        """The threads of these backwards."""
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
        """The gradients have been cleared: nothing is left from backwards."""
        self.sites.clear()
        self._spent.clear()
        self.has_leftover = False

    def fed_alone(self) -> None:
        """The last backward was for this optimizer only. Earlier backwards that others stepped on are leftovers."""
        self.has_leftover |= self.is_partly_spent

    def spend(self, other: Round) -> None:
        """Another optimizer has stepped: the backwards that fed it have served their purpose."""
        self._spent |= self.sites & other.sites
