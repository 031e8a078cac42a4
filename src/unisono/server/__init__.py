"""Parameter servers: tables that many workers push to and pull from, with a staleness that is a guarantee.

consistency   bsp, ssp(s), essp(s), asynchronous
arguments     what a caller says, checked
settings      where the servers are, and who is one of them
connect       a worker's way to them
dial          one authenticated connection
waiting       until an answer is here, with a deadline and a name
handle        what goes on by itself; carried: what a clock takes along
table         dense tables; sparse: rows by key
rules         how pushes become updates
reads         what reads were: staleness, waits
reception     a server's side: who comes
serve         a server's process
absence       says that a worker will not come
replay        what an apply log says
price         k servers beside the collectives
"""

from .connect import ParameterServers as ParameterServers
from .connect import connect as connect
from .consistency import Consistency as Consistency
from .consistency import asynchronous as asynchronous
from .consistency import bsp as bsp
from .consistency import essp as essp
from .consistency import ssp as ssp
from .handle import Handle as Handle
from .reads import Read as Read
from .rules import Rule as Rule
from .sparse import SparseTable as SparseTable
from .table import DenseTable as DenseTable

__all__ = [
    "Consistency", "DenseTable", "Handle", "ParameterServers", "Read", "Rule", "SparseTable", "asynchronous", "bsp",
    "connect", "essp", "ssp",
]  # fmt: skip
