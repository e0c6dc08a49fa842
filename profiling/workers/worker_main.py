"""The worker of a service: a process that works on jobs, and ends with its parent.

Run by `hetune.profiling.workers.worker_process`, with the descriptor of the service's `Activity` as
its argument. The store is that of HETUNE_STORE. The standard input is only watched: it ends with
the parent, however that ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import Trains
from hetune.profiling.process.child import end_with_parent
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.store.store import Store
from hetune.profiling.workers.activity import Activity, IdleGate
from hetune.profiling.workers.training_process import TrainingProcess
from hetune.profiling.workers.worker import JobWorker
from hetune.variants.errors import HetuneError


def main() -> int:
    """Works until it is told to stop, by a signal or by its parent's end; the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    end_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
    idle = IdleGate(Activity.inherited(int(sys.argv[1])))
    try:
        with Store.open() as store, Supervisor() as supervisor:
            # Also for machines whose workers come over HTTP, and see neither store nor shelf.
            leases = Leases(store, trains=Trains.ALL)
            worker = JobWorker(leases, supervisor, train=TrainingProcess(), idle=idle)
            worker.run(threading.Event().wait)
    except KeyboardInterrupt:
        return 0
    except (HetuneError, OSError) as error:  # such as a folder that cannot be written
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
