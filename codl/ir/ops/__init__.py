"""Operators as data: one frozen dataclass each, attributes only.

Inputs are listed by the node that carries the operator; their order is given in
each docstring. Constants (weights, bias) are inputs like any other, so one
region rule also says which slice of a weight a device needs.
"""

# ruff: noqa: F403 - each module says what it exports

from codl.ir.ops import attention, epilogue, host, moves, operator, pointwise, reductions, resizing, windows
from codl.ir.ops.attention import *
from codl.ir.ops.epilogue import *
from codl.ir.ops.host import *
from codl.ir.ops.moves import *
from codl.ir.ops.operator import *
from codl.ir.ops.pointwise import *
from codl.ir.ops.reductions import *
from codl.ir.ops.resizing import *
from codl.ir.ops.windows import *

__all__: list[str] = []
__all__ += attention.__all__
__all__ += epilogue.__all__
__all__ += host.__all__
__all__ += moves.__all__
__all__ += operator.__all__
__all__ += pointwise.__all__
__all__ += reductions.__all__
__all__ += resizing.__all__
__all__ += windows.__all__
