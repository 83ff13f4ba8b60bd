"""Points that programs of the test suite check, with the counts of the long version."""
import glob
import os
import re
import subprocess

from trained_runs import require


def output_of(command, environment=None):
    process = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=os.environ | (environment or {}))
    require(process.returncode == 0, *command, "failed:\n", process.stdout[-3000:])
    return process.stdout


def readers(sanitized_build, mutations):
    """Each reader on cut and mutated files, under the sanitizers."""
    programs = sorted(path for path in glob.glob(f"{sanitized_build}/fuzz/damage_*")
                      if os.access(path, os.X_OK) and os.path.isfile(path))
    require(len(programs) >= 8, "readers are missing in", sanitized_build)
    texts = [output_of([program, str(mutations)]) for program in programs]
    figures = [re.search(r"(\d+) cut .* at most ([\d.]+) MiB, (\d+) ms", text) for text in texts]
    return (f"{len(programs)} readers, each {mutations} mutated files and all "
            f"{sum(int(found[1]) for found in figures)} cut ones; at most "
            f"{max(float(found[2]) for found in figures)} MiB and "
            f"{max(int(found[3]) for found in figures)} ms for a file")


def test_of(build, program, tests, environment=None):
    text = output_of([f"{build}/tests/{program}", f"--gtest_filter={tests}"], environment)
    passed = re.search(r"\[  PASSED  \] (\d+) test", text)
    require(passed and int(passed[1]) > 0, "no test ran:", text)
    return int(passed[1])


def flipped_bits(build, count):
    test_of(build, "run_checkpoint_test", "*OneFlippedBit*", {"NORMBALL_MUTATIONS": str(count)})
    return f"{count} positions, all detected"


def faults_of_every_operation(build):
    tests = test_of(build, "run_checkpoint_test", "*Crash*:*EveryOperation*:*StaysFull*:*AnyFault*")
    return f"{tests} tests: each operation fails, ends the process, or meets a full disk"


def gradients(build, count):
    tests = test_of(build, "train/nonfinite_test", "*", {"NORMBALL_INJECTIONS": str(count)})
    return f"{count} places in each of {tests} pairs of model and method"
