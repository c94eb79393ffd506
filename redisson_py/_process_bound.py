"""What cannot leave its process, nor be doubled in it: clients and what they make."""

from __future__ import annotations

from typing import NoReturn


class ProcessBound:
    """Base of clients, of what they make, and of leases: no pickles, no copies.

    A copy would share the connections and the holds of the first; in another process there are
    none.
    """

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        # `copy.copy` and `copy.deepcopy` ask for it as well.
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: share the object itself within a"
            " process, and create a client in each process"
        )
