"""How many threads kernels are told to use."""

import threading

import torch

from hetune.variants.graph.threads import kernel_threads, using_threads


def test_as_many_as_torch_unless_fewer_are_asked_for():
    assert kernel_threads() == torch.get_num_threads()
    with using_threads(3):
        with using_threads(1):
            assert kernel_threads() == 1
        assert kernel_threads() == 3
    assert kernel_threads() == torch.get_num_threads()


def test_other_threads_are_not_concerned():
    found = []
    with using_threads(torch.get_num_threads() + 1):
        thread = threading.Thread(target=lambda: found.append(kernel_threads()))
        thread.start()
        thread.join()
    assert found == [torch.get_num_threads()]
