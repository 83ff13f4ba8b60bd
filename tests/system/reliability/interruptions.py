"""Runs that are killed, asked to stop, or meet a full disk, and resume bit-exactly."""
import os
import random
import re
import signal
import subprocess
import threading
import time

from tally import Tally
from trained_runs import require

STEPS = 150  # so that steps and start take about the same time
FEW_STEPS = 8
LAST_STEPS = 50  # a signal that comes in these may come too late to stop a run
# Most stop signals come in this part of a run's time after its start: some twenty steps, with their checkpoints and two
# evaluations. A process then costs little more than its start, and a run meets a dozen of them.
SOON = 0.15
PIECE = 25  # signals after which the tally is written


def in_training(process):
    return "step " in process.errors


class Interruptions:
    def __init__(self, runs, seed, patience=10):
        self.runs = runs
        self.patience = patience
        self.random = random.Random(seed)
        self._counted, self._counting = None, threading.Lock()  # for points side by side

    @property
    def operations(self):
        with self._counting:
            self._counted = self._counted or self.runs.operations("few", FEW_STEPS)
            return self._counted

    @property
    def times(self):
        return self.runs.times_of_whole("whole", lambda: self.runs.start("whole", STEPS))

    def _ends_before_a_moment(self, process, soon):
        """Waits for a random moment: three of four while it trains, one while it loads."""
        loading, training = self.times
        if self.random.random() < 0.25:
            return process.wait(self.random.uniform(0, loading))
        while not process.is_training():
            if process.wait(0.002):
                return True
        if self.random.random() < soon:
            training *= SOON
        return process.wait(self.random.uniform(0, training))

    def _interrupt(self, count, signals, check, environments=({},), soon=0):
        """Signals until `count` of them met a process, the part `soon` of them soon after it began to train. Each run is
        resumed until it is complete, and must then be the one that was never interrupted."""
        met = chains = 0
        self.times  # the run to compare with
        while met < count:
            name = f"{signals[0].name.lower()}-{chains}"
            chains += 1
            while True:
                process = self.runs.start(name, STEPS,
                                          environment=self.random.choice(environments))
                if met >= count or self._ends_before_a_moment(process, soon):
                    process.wait()
                    require(process.code == 0, "not resumed:", process)
                    ended = True
                else:
                    asked, sent = time.monotonic(), self.random.choice(signals)
                    process.steps_when_asked = max(self.runs.checkpoints(name), default=0)
                    process.popen.send_signal(sent)
                    process.wait()
                    met += 1
                    ended = check(process, name, sent, time.monotonic() - asked)
                require("skipped" not in process.errors, "a checkpoint was damaged:", process)
                if ended:
                    break
            self.runs.require_same(name, "whole", STEPS)
            self.runs.remove(name)
        return met, chains

    def kills(self, count):
        training = 0

        def check(process, *_):
            nonlocal training
            training += in_training(process)
            if process.code == 0:  # it ended just before
                return True
            require(process.code == -signal.SIGKILL, "not resumed:", process)
            return False

        met, chains = self._interrupt(count, [signal.SIGKILL], check)
        return (f"{met} kills ({training} in training, the others while a process loaded) in {chains} "
                f"runs of {STEPS} steps; every resume was bit-exact")

    def stop_signals(self, count, tally=None):
        """Half of the processes run with glibc's checks of the heap, unless a sanitizer checks it. Those that a process
        meets while it loads do not count, but are told."""
        slowest = early = 0
        environments = [{}]
        if not self.runs.sanitized:
            environments += [{"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3",
                              "MALLOC_PERTURB_": "165"}]

        def check(process, name, sent, seconds):
            nonlocal slowest, early
            slowest = max(slowest, seconds)
            require(seconds < self.patience, "took", seconds, "seconds to stop:", process)
            if process.code == -sent:  # before the first step, or after the last
                require(not in_training(process) or STEPS in self.runs.checkpoints(name),
                        "ended without a checkpoint:", process)
                early += 1
                return STEPS in self.runs.checkpoints(name)
            require(process.code == 0, "no clean stop:", process)
            step = int(re.search(r"after step (\d+) of", process.out)[1])
            require(step in self.runs.checkpoints(name), "no checkpoint of step", step, process)
            require(step < STEPS or process.steps_when_asked > STEPS - LAST_STEPS, sent.name, "at step",
                    process.steps_when_asked, "was not heeded:", process)
            return step == STEPS

        counted, signals = Tally(tally), [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
        while counted.training < count:
            slowest = early = 0
            met = self._interrupt(min(count - counted.training, PIECE), signals, check, environments, soon=0.9)[0]
            counted.add(training=met - early, loading=early, slowest=slowest)
            print(f"        {counted}", flush=True)
        return f"{counted}; all resumed bit-exactly"

    def crash_at_every_operation(self, count=None):
        """Killed at each operation of one checkpoint, from the one before to the one after it."""
        names = [f"rename runs/few/checkpoints/step-{step}" for step in (4, 5)]
        first, last = (self.operations.index(name) for name in names)
        # With what follows the rename: the directory's sync and the removal of an older one.
        last += next(i for i, line in enumerate(self.operations[last:]) if "metrics.jsonl" in line)
        places = range(first + 1, last)
        if count is not None:
            places = self.random.sample(places, count)
        for at in places:
            process = self.runs.with_fault("crash", FEW_STEPS, "crash", at)
            require(process.code == -signal.SIGKILL, "operation", at, "was not reached:", process)
            left = self.runs.checkpoints("crash")[-1]
            require(left in (4, 5), "checkpoint", left, "is left")
            self.runs.complete("crash", FEW_STEPS)
            self.runs.require_same("crash", "few", FEW_STEPS)
            self.runs.remove("crash")
        return f"killed at {len(places)} operations; every resume was bit-exact"

    def _check_full(self, process, name, where):
        require(process.code == 1, "no error:", process)
        message = process.errors[process.errors.rindex("normball: "):]
        require("disk full while" in message and f"{where}/{name}" in message,
                "the message does not name the path:", message)
        named = re.search(r"the last good checkpoint is \S+/step-(\d+)", message)
        if named:
            require(int(named[1]) == self.runs.checkpoints(name, where)[-1], "misnamed:", message)

    def full_disk(self, count):
        """From a random operation on, nothing that takes space works."""
        taking_space = [at for at, line in enumerate(self.operations)
                        if line.split()[0] not in ("cut", "remove")]
        for at in self.random.sample(taking_space, count):
            process = self.runs.with_fault("full", FEW_STEPS, "full", at)
            self._check_full(process, "full", "runs")
            self.runs.complete("full", FEW_STEPS)
            self.runs.require_same("full", "few", FEW_STEPS)
            self.runs.remove("full")
        return f"full at {count} operations; path named, every resume was bit-exact"

    def full_file_system(self, count):
        """A real file system without space left, at sizes that let the run get ever further; three
        checkpoints take about 220 KiB."""
        place = self.runs.path("small")
        os.makedirs(place, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", place]
        if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode != 0:
            return "not run: mounting a file system needs root"
        try:
            for kib in [12 + 24 * i for i in range(count)]:
                with open(f"{place}/ballast", "wb") as ballast:
                    ballast.write(bytes((1024 - kib) * 1024))
                process = self.runs.run("full", FEW_STEPS, where="small")
                self._check_full(process, "full", "small")
                os.remove(f"{place}/ballast")
                self.runs.complete("full", FEW_STEPS, where="small")
                self.runs.require_same("full", "few", FEW_STEPS, where="small")
                self.runs.remove("full", where="small")
        finally:
            subprocess.run(["umount", place], check=True)
        return f"{count} sizes of a tmpfs; path named, every resume was bit-exact"
