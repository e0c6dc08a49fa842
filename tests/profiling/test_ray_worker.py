"""Units of jobs on the machines of a Ray cluster: none is lost, and none counts twice."""

import time
from types import SimpleNamespace

import pytest
from tests.profiling._made_up import measurements_of, tasks_of_job, tiny_units

from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.jobs.records import State
from hetune.profiling.measure.limits import Limits
from hetune.profiling.workers.ray_machine import RayMachine, RayNode, ray_resources
from hetune.profiling.workers.ray_worker import RayWorker
from hetune.variants.errors import InputError, WorkerError

PROBLEMS = 6
OURS = ray_resources(this_machine())


def node(id="a", alive=True, **resources):
    return {"NodeID": id, "NodeManagerHostname": id, "Alive": alive, "Resources": resources}


def test_nodes_that_measure_have_the_resource_of_a_machine():
    nodes = [node("a", CPU=4, **OURS), node("b", CPU=8), node("c", alive=False, **OURS)]
    [name] = OURS
    assert RayNode.listed(nodes) == {"a": RayNode("a", "a", name, 4, 0)}


def fakes(folder, stuck):
    """Makes what measures nothing; on the node that is `stuck` it never ends, and begins first.

    In a function, so that Ray sends the class with it.
    """
    made_up = measurements_of

    class Fake:
        def __init__(self):
            self.limits = Limits()

        def measure(self, members, stamp):
            import ray

            node = ray.get_runtime_context().get_node_id()
            (folder / f"{node}-{members[0].key}").touch()
            if node == stuck:
                time.sleep(600)
            while not [*folder.glob(f"{stuck}-*")]:
                time.sleep(0.01)
            return made_up(members, stamp, code_version=stamp.code_version)

    return Fake


def test_without_machines_it_says_how_to_start_them(store, caplog):
    worker = RayWorker(SimpleNamespace(nodes=lambda: [node("b", CPU=8)]), store)
    with pytest.raises(InputError, match="ray start --resources="):
        worker.run(lambda _: False, until_idle=True)
    turns = iter([False, False, True])
    worker.run(lambda _: next(turns))  # waits for some, and says so once
    assert caplog.text.count("ray start --resources=") == 1


def test_another_release_on_a_node_is_the_fault_of_no_unit(monkeypatch):
    says = SimpleNamespace(remote=lambda: ("another", this_machine(), ("cpu",)))
    actor = SimpleNamespace(describe=says)
    errors = SimpleNamespace(RayTaskError=KeyError, RayError=KeyError)
    ray = SimpleNamespace(
        exceptions=errors, wait=lambda tasks, timeout: (tasks, []), get=lambda task: task
    )
    [name] = OURS
    machine = RayMachine(ray, RayNode("a", "a", name, 1, 0), lambda: None, SimpleNamespace)
    monkeypatch.setattr(machine, "_start", lambda: actor)
    with pytest.raises(WorkerError, match="another"):
        machine.measure([], SimpleNamespace())


@pytest.mark.slow
def test_a_machine_that_is_lost_loses_no_unit(store, queue, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="needs ray (extra 'ray')")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")

    def measures(name):
        """A node's: each has a measuring lock of its own."""
        data = {"XDG_DATA_HOME": str(tmp_path / name)}
        return {"num_cpus": 1, "resources": OURS, "env_vars": data}

    cluster = Cluster(initialize_head=True, head_node_args=measures("head"))
    try:
        ray.init(cluster.address, log_to_driver=False)
        lost = cluster.add_node(**measures("lost"))
        cluster.wait_for_nodes()
        job = queue.submit_units("mine", tiny_units(PROBLEMS))
        marks = tmp_path / "marks"
        marks.mkdir()

        def stopped(seconds):
            if [*marks.glob(f"{lost.node_id}-*")] and lost.any_processes_alive():
                cluster.remove_node(lost, allow_graceful=False)
            time.sleep(seconds)
            return False

        supervisor = fakes(marks, lost.node_id)
        worker = RayWorker(ray, store, supervisor=supervisor, rest_seconds=0.1)
        worker.run(stopped, until_idle=True, poll_seconds=0.05)
        assert queue.get(job.id).state is State.SUCCEEDED
        found = list(store.measurements())
        assert sorted(m.unit for m in found) == sorted(unit.key for unit in tiny_units(PROBLEMS))
        assert {m.machine for m in found} == {this_machine().digest}
        attempts = sorted(unit.attempt for unit in tasks_of_job(queue, job.id))
        said = [line.text for line in queue.log(job.id)]
        assert attempts == [1] * (PROBLEMS - 1) + [2], said
        assert len([*marks.iterdir()]) == PROBLEMS + 1
    finally:
        ray.shutdown()
        cluster.shutdown()
