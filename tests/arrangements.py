"""How devices of tests share memory."""

from codl.plan.sharing import Arrangement, Sharing


def arrange_alike(sharing: Sharing, count: int) -> Arrangement:
    """Return the arrangement of ``count`` devices that all share in the same way."""
    return Arrangement(modes=(sharing,) * count)
