"""Several ranks of `normball launch`: one is killed, hangs or is asked to stop; all end in time and go on bit-exactly."""
import functools
import os
import pathlib
import random
import re
import signal
import subprocess
import time

from trained_runs import require

STEPS = 60
TIMEOUT = 5  # seconds that a rank waits for another
ENDING = 10  # more for a message and the end of all processes


def ranks_of(process):
    """Process numbers by rank, of a launcher that we started."""
    launcher = process.popen.pid
    found = {}
    try:
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        for child in children:
            variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            for variable in variables:
                if variable.startswith(b"RANK="):
                    found[int(variable[5:])] = int(child)
    except OSError:  # it ended meanwhile
        return {}
    return found


class RankFaults:
    def __init__(self, runs, seed, patience=10):
        self.runs = runs
        self.ending = max(ENDING, patience)
        self.random = random.Random(seed)

    def _start(self, name, ranks):
        return self.runs.start(name, STEPS, launcher=["launch", "-n", str(ranks), "--timeout", str(TIMEOUT)])

    @functools.cached_property
    def available(self):
        launch = [self.runs.normball, "launch", "-n", "2", "train", "no-such-configuration"]
        return "was built without" not in subprocess.run(launch, capture_output=True, text=True).stderr

    def _seconds(self, ranks):
        name = f"ranks-{ranks}"
        return self.runs.times_of_whole(name, lambda: self._start(name, ranks))

    def _strike(self, process, ranks, sent, early):
        """Sends the signal to a random rank at a random moment, the part `early` of them while it loads. None where it
        came too late."""
        loading, training = self._seconds(ranks)
        if self.random.random() < early:
            if process.wait(self.random.uniform(0, loading)):
                return None
        else:
            while not process.is_training():
                if process.wait(0.002):
                    return None
            if process.wait(self.random.uniform(0, training)):
                return None
        rank = self.random.randrange(ranks)
        target = ranks_of(process).get(rank)
        if target is None:  # not yet started, or ended
            return None
        try:
            os.kill(target, sent)
        except ProcessLookupError:
            return None
        return rank

    def _chain(self, count, sent, check, early=0.25, longer=0):
        """Strikes until `count` of them met a rank; each run is resumed until it is complete."""
        if not self.available:
            return "not run: the program was built without c10d"
        met = chains = training = 0
        slowest = 0.0
        while met < count:
            ranks = self.random.choice((2, 3, 4))
            self._seconds(ranks)
            name = f"ranks-{sent.name.lower()}-{chains}"  # not that of a run of one process beside it
            chains += 1
            while True:
                process = self._start(name, ranks)
                rank = self._strike(process, ranks, sent, early)
                struck = time.monotonic()
                # A run that was not struck ends when it is complete.
                in_time = process.wait(600 if rank is None else TIMEOUT + self.ending + longer)
                require(in_time, "hangs after", sent.name, "to rank", rank, "of", ranks, "after", met, "before it")
                require("skipped" not in process.errors, "a checkpoint was damaged:", process)
                if rank is not None and (process.code != 0 or "stopped after" in process.out):
                    met += 1
                    training += "step " in process.errors
                    slowest = max(slowest, time.monotonic() - struck)
                    check(process, name, rank)
                elif process.code != 0:
                    require(False, "failed by itself:", process)
                if "finished after" in process.out and process.code == 0:
                    break
                if met >= count:
                    process = self._start(name, ranks)
                    process.wait()
                    require(process.code == 0, "not resumed:", process)
                    break
            self.runs.require_same(name, f"ranks-{ranks}", STEPS)
            self.runs.remove(name)
        return f"{met} ({training} in training) in {chains} runs of 2 to 4 ranks, slowest end {slowest:.1f} s"

    def kills(self, count):
        def check(process, name, rank):
            require(process.code == 1, "exit code:", process)
            require(f"rank {rank} was ended by signal 9" in process.errors, "rank", rank, "is not named:", process)
            if "step " in process.errors and STEPS not in self.runs.checkpoints(name):  # the others were at work
                require(re.search(rf"\[ranks\] rank {rank}\b", process.errors), "the others do not name it:", process)

        return self._chain(count, signal.SIGKILL, check) + "; every resume was bit-exact"

    def hangs(self, count):
        """The launcher kills one that hangs after the timeout and 5 seconds."""
        def check(process, _, rank):
            require(process.code == 1, "exit code:", process)
            require(re.search(rf"rank {rank}\b.* (ended or does not answer|did not end)", process.errors),
                    "rank", rank, "is not named:", process)

        return self._chain(count, signal.SIGSTOP, check, early=0, longer=TIMEOUT + 5) + "; every resume was bit-exact"

    def stops(self, count):
        """SIGTERM to one rank: all stop with a checkpoint."""
        def check(process, name, rank):
            if process.code != 0:  # while it loaded, or after the last step
                require("step " not in process.errors or STEPS in self.runs.checkpoints(name),
                        "no clean stop:", process)
                return
            step = int(re.search(r"after step (\d+) of", process.out)[1])
            require(step in self.runs.checkpoints(name), "no checkpoint of step", step, process)

        return self._chain(count, signal.SIGTERM, check) + "; every resume was bit-exact"
