"""Who decides how many threads the core uses, seen from outside: by the threads that the process has afterwards.

torch may bring an OpenMP runtime of its own (its wheels do); each case is a new process.
"""
import os
import subprocess
import sys

import normball
import pytest

BEGIN = """
import hashlib, os
{imports}
import numpy as np
from normball.torch import ClippedScion

def tasks():
    return len(os.listdir("/proc/self/task"))

def model():  # enough work for a team, in tensors that are too small for torch to start one
    generator = torch.Generator().manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(96, 96, generator=generator)) for _ in range(8)]
    for p in parameters:
        p.grad = torch.randn(96, 96, generator=generator)
    return parameters

def optimizer(parameters, **options):
    return ClippedScion(parameters, lr=0.01, alpha=0.1, rho=100.0, **options)
"""
IMPORTS = {"torch first": "import torch\nimport normball", "normball first": "import normball\nimport torch"}


def run(imports, program, **environment):
    kept = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", BEGIN.format(imports=IMPORTS[imports]) + program], text=True, timeout=120,
                          capture_output=True, env={**kept, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("setting, action, expected", [
    ("torch.set_num_threads(1); o = optimizer(model())", "o.step()", 0),
    ("torch.set_num_threads(3); o = optimizer(model())", "o.step()", 2),
    ("torch.set_num_threads(1); o = optimizer(model()); o.step(); torch.set_num_threads(3)", "o.step()", 2),
    ("torch.set_num_threads(1); o = optimizer(model()); o.step(); normball.set_num_threads(3)", "o.step()", 2),
    ("normball.set_num_threads(3); torch.set_num_threads(1); normball.set_num_threads(0); o = optimizer(model())", "o.step()", 0),
    ("normball.set_num_threads(3); o = optimizer(model(), threads=1)", "o.step()", 0),
    ("torch.set_num_threads(1); o = optimizer(model(), threads=4)", "o.step()", 3),
    ("normball.set_num_threads(3)", "normball.lmo(np.random.randn(512, 512), 'spectral')", 2),
    ("normball.set_num_threads(1)", "normball.lmo(np.random.randn(512, 512), 'spectral')", 0)])
def test_threads_of_the_core(setting, action, expected):
    """Those that the action starts; torch.set_num_threads() starts some of its own."""
    program = f"{setting}; number = torch.get_num_threads(); before = tasks(); {action}; new = tasks() - before"
    assert run("torch first", program + "\nassert torch.get_num_threads() == number\nprint(new)") == str(expected)


def test_openmp_decides_for_arrays():
    """Without torch, which would set it where it shares the runtime."""
    program = ("import os, normball, numpy as np; before = len(os.listdir('/proc/self/task'))\n"
               "normball.lmo(np.random.randn(512, 512), 'spectral')\n"
               "print(normball.get_num_threads(), len(os.listdir('/proc/self/task')) - before)")
    done = subprocess.run([sys.executable, "-c", program], text=True, timeout=120, stdout=subprocess.PIPE,
                          env={**os.environ, "OMP_NUM_THREADS": "3"})
    assert done.stdout.strip() == "3 2"


def test_the_order_of_imports_changes_no_bit():
    program = ("parameters = model(); o = optimizer(parameters); o.step(); o.step()\n"
               "print(hashlib.sha256(b''.join(p.detach().numpy().tobytes() for p in parameters)).hexdigest())")
    assert len({run(imports, program, OMP_NUM_THREADS=threads) for imports in IMPORTS for threads in ("1", "3")}) == 1


def test_a_fork_after_a_step_can_step():
    program = """
import signal
normball.set_num_threads(3)
parameters = model()
o = optimizer(parameters)
o.step()
child = os.fork()
signal.alarm(60)  # whoever hangs is killed
o.step()
digest = hashlib.sha256(b''.join(p.detach().numpy().tobytes() for p in parameters)).digest()
if child == 0:
    os._exit(digest[0])
_, status = os.waitpid(child, 0)
print(os.WIFEXITED(status) and os.WEXITSTATUS(status) == digest[0])
"""
    assert run("torch first", program) == "True"


def test_numbers_that_are_none():
    for wrong in (-1, 1.5, True, "2", 5000):
        with pytest.raises(ValueError, match=r"\[set_num_threads\] threads must be an integer from 0 to 4096, got"):
            normball.set_num_threads(wrong)
