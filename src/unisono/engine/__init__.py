"""Operations that run in parallel as far as their variables allow, with the result of one after the other."""

from .._native import Lane as Lane
from .._native import Variable as Variable
from .completion import Completion as Completion
from .engine import Engine as Engine
from .native import copy as copy
from .native import nothing as nothing
from .native import reduce as reduce
from .operation import Operation as Operation
from .serial import SerialEngine as SerialEngine
