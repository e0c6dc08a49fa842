"""A training that trains nothing: ``python fake_training.py DEVICE MACHINE``.

Where that is ``hang``, it says so and never ends. Otherwise it gives, in place of a model, the
device, how nice it is and whether its memory is limited.
"""

import os
import resource
import time

from hetune.profiling.workers.train_main import main


def do(store, machine, registry):
    print("what libraries print is no answer")
    if machine == "hang":
        os.write(2, b"hangs\n")
        time.sleep(600)
    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return f"{registry.device}, nice {os.nice(0)}, limited {is_limited}"


if __name__ == "__main__":
    main(do)
