"""Optimizers with process_group, on two and four real ranks: replicated parameters."""
import inspect
import pathlib
import subprocess
import sys

import on_ranks
import pytest
import ranks_checks
import torch.distributed as dist

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch without distributed")

ON_FOUR = ["bits_with_options", "each_momentum_has_one_owner", "the_global_batch", "states_of_other_numbers_of_ranks",
           "parameters_that_come_and_go", "bad_gradients_in_one_rank"]
ON_TWO = ["bits_of_all_methods", "parameters_that_come_and_go", "closures_and_steps_without_gradients", "line_searches",
          "bad_gradients_in_one_rank", "other_errors_in_one_rank", "other_models_and_settings", "states_that_differ", "refusals"]
_results = {}


def result(size, name):
    """All checks of a number of ranks run in the same processes, which take longest to start."""
    if size not in _results:
        _results[size] = on_ranks.run(size, "ranks_checks", {2: ON_TWO, 4: ON_FOUR}[size])
    return _results[size][name]


@pytest.mark.parametrize("size, name", [(2, name) for name in ON_TWO] + [(4, name) for name in ON_FOUR])
def test_on_ranks(size, name):
    error = result(size, name)
    assert error is None, error


def test_every_check_runs():
    helpers = {"rank", "groups_of", "network", "set_gradients", "same", "both", "nothing_moves"}
    found = {name for name, each in inspect.getmembers(ranks_checks, inspect.isfunction) if each.__module__ == "ranks_checks"}
    assert found - helpers == set(ON_TWO) | set(ON_FOUR)


@pytest.mark.parametrize("how, text", [("killed", "rank 2 ended or does not answer, while rank "),
                                       ("stopped", "rank 2 ended or does not answer, while rank "),
                                       ("interrupted", "rank 2: Interrupt: the user is tired")])
def test_a_lost_rank_is_named_by_all_others(how, text):
    """Killed, silent beyond the group's timeout of 5 s, or gone in the middle of a step."""
    port = on_ranks.free_port()
    command = [sys.executable, str(pathlib.Path(__file__).with_name("lost_rank.py")), str(port)]
    ranks = [subprocess.Popen([*command, str(rank), "3", how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for rank in range(3)]
    try:
        told = [each.communicate(timeout=60) for each in ranks[:2]]
    finally:
        for each in ranks:
            each.kill()
            each.communicate()
    for out, err in told:
        assert out.startswith("3 steps") and f"[ClippedScion] {text}" in out, (out, err)
        assert float(out.split(",")[1].split()[0]) < 15


def test_the_example_under_torchrun():
    """--redirects and --tee: torchrun of 1.13 does not understand its own defaults on Python 3.11."""
    try:
        dist.TCPStore("127.0.0.1", on_ranks.free_port(), 1, True)
    except RuntimeError as error:
        if "libuv" in str(error):
            pytest.skip("this torch was built without libuv, and its torchrun asks for it")
        raise
    example = pathlib.Path(__file__).parents[2] / "examples" / "train_ddp.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr", "127.0.0.1",
               "--master_port", str(on_ranks.free_port()), "--redirects", "1", "--tee", "1", str(example)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and "2 ranks, 6 momenta" in run.stdout, run.stdout + run.stderr
