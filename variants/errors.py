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
├── PartitionError        the files of a run in parts cannot be written, or are in use
├── RegistryError         the registry's folder cannot be used
├── StoreError            the store of profiling records cannot be reached, read or written
├── CampaignError         a profiling campaign, or a graph of one, is described wrongly
│   └── SourceError       a file of graphs cannot be read now, or is not what it was
├── WorkerError           the process that measures or trains is lost
├── ModelError            a cost model cannot be fitted, read or kept
│   └── PromotionError    a cost model may not become the champion, or there is none before it
└── ServiceError          the service cannot do what it was asked for
    ├── MalformedError    what was sent does not have the documented form
    ├── NotFoundError     there is no graph, model, version or job of that name
    ├── ConflictError     a version or a job is there already, with another content
    │   └── LeaseError    a worker no longer holds what it works on
    ├── TooLargeError     what was sent, or would have to be held, exceeds a limit
    ├── BusyError         as many requests wait as may
    ├── DeadlineError     a request took longer than it was given
    ├── AccessError       the key is missing or wrong
    │   └── ScopeError    the key is right, and not for this
    ├── DeviceError       the GPU that layers run on fails, or is gone
    │   └── DeviceMemoryError  it has no memory left for what was asked
    ├── NotReadyError     a model that is wanted at the start is not ready yet
    ├── FolderError       the service's folder cannot be used
    │   └── DiskFullError no space is left for it
    └── UnreachableError  no service answers, or what answers is none

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

    needed: int
    """Bytes that the smallest takes, where they are known; else 0."""

    def __init__(self, message: str, needed: int = 0) -> None:
        super().__init__(message)
        self.needed = needed


class CompileError(HetuneError, RuntimeError):
    """The compiler is missing, or refused generated source."""


class PartitionError(HetuneError, OSError):
    """The files of a run in parts cannot be written, or another process is writing them."""


class RegistryError(HetuneError, OSError):
    """The registry's folder cannot be created, read or written."""


class StoreError(HetuneError, OSError):
    """The store of profiling records cannot be reached, read or written, or refuses a record."""

    may_pass: bool = False
    """Whether it may be there again later: it is away, full, busy, or does not answer."""


class CampaignError(HetuneError, ValueError):
    """A profiling campaign, or the recipe of one of its graphs, is described wrongly."""


class SourceError(CampaignError):
    """A file that a campaign measures on cannot be read now, or is not what it was."""


class WorkerError(HetuneError, RuntimeError):
    """The process that measures cannot be started, or the one that trains was lost."""


class ModelError(HetuneError):
    """A cost model cannot be fitted, read, kept or used: what it needs is missing or damaged."""


class PromotionError(ModelError):
    """A cost model may not become the champion, or there was none to go back to."""


class ServiceError(HetuneError):
    """The service cannot do what it was asked for."""


class MalformedError(ServiceError, ValueError):
    """What was sent is not JSON or safetensors of the documented form."""


class NotFoundError(ServiceError, LookupError):
    """The service has no graph, model, version or job of that name."""


class ConflictError(ServiceError):
    """A version of a model, or a job of that key, is there already, with another content."""


class LeaseError(ConflictError):
    """A worker no longer holds what it works on: another one may have it, so nothing is written."""


class TooLargeError(ServiceError, ValueError):
    """What was sent, or what would have to be held for it, exceeds a limit of the service."""


class BusyError(ServiceError):
    """As many requests wait as may: try again later."""


class DeadlineError(ServiceError, TimeoutError):
    """A request took longer than its sender gave it."""


class AccessError(ServiceError):
    """The service wants a key, and the one that was sent is missing or wrong."""


class ScopeError(AccessError):
    """The key that was sent is one of the service's, and does not allow what was asked for."""


class DeviceError(ServiceError, RuntimeError):
    """The GPU that layers run on fails, or is gone."""


class DeviceMemoryError(DeviceError):
    """The GPU that layers run on has no memory left for what was asked."""


class NotReadyError(ServiceError):
    """A model that is wanted at the start is being loaded, or cannot be."""


class FolderError(ServiceError, OSError):
    """The service's folder cannot be created, read or written."""


class DiskFullError(FolderError):
    """No space is left for the service's folder."""


class UnreachableError(ServiceError, OSError):
    """No service answers at the address, or what answers is none."""
