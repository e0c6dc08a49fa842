"""The worker of a service: a process that works on jobs, and ends with its parent.

Run by `hetune.profiling.jobs.keeper` as ``python -m hetune.profiling.jobs.attached DESCRIPTOR``,
with the descriptor of the service's `Activity`. The store is that of HETUNE_STORE. The standard
input is only watched: it ends with the parent, however that ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from hetune.profiling.jobs.activity import Activity
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.quiet import Quiet
from hetune.profiling.jobs.records import Trains
from hetune.profiling.jobs.training_process import TrainingProcess
from hetune.profiling.jobs.worker import JobWorker
from hetune.profiling.store.store import Store
from hetune.profiling.supervisor import Supervisor
from hetune.variants.errors import HetuneError


def main() -> int:
    """Works until it is told to stop, by a signal or by its parent's end; the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    quiet = Quiet(Activity.inherited(int(sys.argv[1])))
    try:
        with Store.open() as store, Supervisor() as supervisor:
            # Also for machines whose workers come over HTTP, and see neither store nor registry.
            lender = Leases(store, trains=Trains.ALL)
            worker = JobWorker(lender, supervisor, train=TrainingProcess(), quiet=quiet)
            worker.run(threading.Event().wait)
    except KeyboardInterrupt:
        return 0
    except (HetuneError, OSError) as error:  # such as a folder that cannot be written
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _end_with_parent() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock this thread would hold in the end
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
