"""A training: a process that trains one cost model, after all others, and ends with its parent.

`hetune.profiling.workers.training_process` runs it as
``python -m hetune.profiling.workers.train_main DEVICE MACHINE``, with the digest of a machine's
fingerprint. The store is that of HETUNE_STORE, the registry the user's. The answer is one JSON
object on the standard output: the model's id, or what went wrong. The standard input is only
watched: it ends with the parent, however that ended.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from hetune.costmodel.features.devices import known
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.profiling.cost_model_training.train import train
from hetune.profiling.measure.limits import usable_memory
from hetune.profiling.process.child import end_with_parent
from hetune.profiling.process.memory_limit import limit_memory
from hetune.profiling.store.store import Store
from hetune.profiling.workers.failures import is_machine_fault, message_of
from hetune.variants.errors import HetuneError
from hetune.variants.kernel.device import Device

_NICE = 19
_log = logging.getLogger(__name__)


def main(do: Callable[[Store, str, ModelRegistry], str] = train) -> None:
    """Trains, and answers.

    Args:
        do: As `hetune.profiling.cost_model_training.train.train`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    end_with_parent(lambda: os._exit(1))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    os.nice(_NICE)
    limit_memory(usable_memory())
    answers.write(json.dumps(answer(known(sys.argv[1]), sys.argv[2], do)))
    answers.close()


def answer(
    device: Device, machine: str, do: Callable[[Store, str, ModelRegistry], str]
) -> dict[str, Any]:
    """The id of the model that was trained, or what went wrong, and whose fault that is.

    That of the data goes wrong again, that of the machine may go well next time; of what is
    unknown nobody can say.

    Args:
        device: What the measured variants are for.
        machine: Digest of the fingerprint of the machine to train for.
        do: As `hetune.profiling.cost_model_training.train.train`.
    """
    try:
        with Store.open() as store:
            return {"model": do(store, machine, ModelRegistry(device=device))}
    except Exception as error:
        is_ours = isinstance(error, HetuneError)
        if not is_ours:
            _log.exception("a cost model for the machine %s", machine)
        fault = "machine" if is_machine_fault(error) else "data" if is_ours else "unknown"
        return {"error": message_of(error), "fault": fault}


if __name__ == "__main__":
    main()
