"""Optimizers with process_group on parameters of FSDP2 (fully_shard), on two and four real ranks."""
import inspect

import fsdp_checks
import fsdp_states
import on_ranks
import pytest
import torch
import torch.distributed as dist

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
pytestmark = pytest.mark.skipif(not dist.is_available() or VERSION < (2, 4), reason="fully_shard needs a newer torch")

ON_FOUR = ["numbers_of_ranks", "the_global_batch", "shards_beside_replicated", "fsdp_states:states_of_other_numbers_of_ranks",
           "volume"]
ON_TWO = ["methods_and_norms", "reports", "fsdp_states:sharded_states", "initialization", "bad_gradients_in_one_rank",
          "other_errors_in_one_rank", "refusals", "fsdp_states:checkpoints_of_torch", "grad_scaler", "volume", "column_parallel"]
# A GradScaler that knows DTensors, and forward passes of fully_shard on CPUs (2.6 has none, 2.13 has).
NEWER = ({"grad_scaler"} if VERSION < (2, 6) else set()) | ({"the_global_batch"} if VERSION < (2, 7) else set())
_results = {}


def result(size, name):
    """All checks of a number of ranks run in the same processes, which take longest to start."""
    if size not in _results:
        names = {2: ON_TWO, 4: ON_FOUR}[size]
        _results[size] = on_ranks.run(size, "fsdp_checks", [name for name in names if name not in NEWER])
    return _results[size][name]


@pytest.mark.parametrize("size, name", [(2, name) for name in ON_TWO] + [(4, name) for name in ON_FOUR])
def test_on_ranks(size, name):
    if name in NEWER:
        pytest.skip("needs a newer torch")
    error = result(size, name)
    assert error is None, error


def test_every_check_runs():
    helpers = {"rank", "meshes", "world", "network", "whole", "set_gradients", "close", "sharded", "both"}
    found = {("" if module is fsdp_checks else "fsdp_states:") + name for module in (fsdp_checks, fsdp_states)
             for name, each in inspect.getmembers(module, inspect.isfunction) if each.__module__ == module.__name__}
    assert found - helpers == set(ON_TWO) | set(ON_FOUR)
