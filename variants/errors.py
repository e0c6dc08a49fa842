"""The tree of errors that hetune raises.

HetuneError
├── GraphError            the graph that was given is not one
│   └── GraphFileError    a file could not be read as a graph
├── ProgramError          a layer's program is ill-formed (also raised by the verifier)
│   └── PassError         a pass broke a program: names the pass
├── KernelError           a kernel is ill-formed
├── InputError            a tensor does not fit: dtype, shape, device
├── VariantError          no such variant, or none that fits the limits
│   └── MemoryLimitError  every variant needs more memory than allowed
├── CompileError          the compiler is missing or refused the source
├── RegistryError         the registry's folder cannot be used
├── StoreError            the store of profiling records cannot be reached, read or written
├── CampaignError         a profiling campaign, or a graph of one, is described wrongly
├── WorkerError           the process that measures cannot be started
└── ModelError            a cost model cannot be fitted, read or kept
    └── PromotionError    a cost model may not become the champion, or there is none before it

Every message says what happened, where, and how to mend it.
"""


class HetuneError(Exception):
    """Base of all errors that hetune raises on purpose."""


class GraphError(HetuneError, ValueError):
    """The graph is malformed: ids out of range, lengths that differ, wrong dtypes."""


class GraphFileError(GraphError):
    """A file could not be read as a graph."""


class ProgramError(HetuneError):
    """A program breaks a rule of the inter-operator IR."""


class PassError(ProgramError):
    """A pass turned a valid program into an invalid one."""


class KernelError(HetuneError):
    """A kernel breaks a rule of the intra-operator IR."""


class InputError(HetuneError, ValueError):
    """A tensor's dtype, shape or device does not fit what the layer needs."""


class VariantError(HetuneError, LookupError):
    """There is no variant of that name, or none that fits."""


class MemoryLimitError(VariantError):
    """Every variant needs more memory than the limit allows."""


class CompileError(HetuneError, RuntimeError):
    """The compiler is missing, or refused generated source."""


class RegistryError(HetuneError, OSError):
    """The registry's folder cannot be created, read or written."""


class StoreError(HetuneError, OSError):
    """The store of profiling records cannot be reached, read or written, or refuses a record."""


class CampaignError(HetuneError, ValueError):
    """A profiling campaign, or the recipe of one of its graphs, is described wrongly."""


class WorkerError(HetuneError, RuntimeError):
    """The process that measures cannot be started."""


class ModelError(HetuneError):
    """A cost model cannot be fitted, read, kept or used: what it needs is missing or damaged."""


class PromotionError(ModelError):
    """A cost model may not become the champion, or there was none to go back to."""
