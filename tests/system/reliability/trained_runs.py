"""Runs of `normball train` on a tiny model, and what they leave behind."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

TINY_MODEL = pathlib.Path(__file__).parents[2] / "cli" / "tiny_gpt.toml"
CONFIG = """
[run]
threads = 1
log_every = 1
eval_every = 10
checkpoint_every = 1
[eval]
batches = 2
[optimizer]
lr = 0.01
alpha = 0.1
rho = 10.0
""" + TINY_MODEL.read_text()


# Threads that wait sleep: several processes run side by side.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
SUPPRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tsan_suppressions.txt")
# For a program built with a sanitizer: a finding ends it with a code of its own. Faults are preloaded before the runtime.
SANITIZERS = {"ASAN_OPTIONS": "exitcode=99:verify_asan_link_order=0:detect_leaks=0",
              "TSAN_OPTIONS": f"exitcode=99:suppressions={SUPPRESSIONS}"}


class Failure(Exception):
    """Something promised did not hold."""


def require(condition, *text):
    if not condition:
        raise Failure(" ".join(str(part) for part in text))


class Process:
    """A running `normball train`."""

    def __init__(self, command, directory, environment):
        self.began = time.monotonic()
        # Files, since a pipe that nobody reads would stop the run.
        self._out, self._errors = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.popen = subprocess.Popen(command, cwd=directory, stdout=self._out, stderr=self._errors,
                                      env=os.environ | ENVIRONMENT | SANITIZERS | environment)

    def is_training(self):
        """Whether it has said so: of each step, and when it goes on with a run."""
        return os.fstat(self._errors.fileno()).st_size > 0

    def wait(self, timeout=None):
        """True when it has ended, with `code`, `seconds`, `out` and `errors` set."""
        try:
            self.code = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        self.seconds = time.monotonic() - self.began
        self.out, self.errors = self._text(self._out), self._text(self._errors)
        return True

    @staticmethod
    def _text(file):
        file.seek(0)  # not closed: a process may be waited for again
        return file.read()

    def __str__(self):
        return f"exit code {self.code}\n{self.out}{self.errors[-1500:]}"


class TrainedRuns:
    """Runs of one configuration in a directory of their own."""

    def __init__(self, normball, directory, faulty_disk):
        self._times, self._timing = {}, threading.Lock()
        self.normball, self.directory = os.path.abspath(normball), os.path.abspath(directory)
        self.faulty_disk = os.path.abspath(faulty_disk)
        with open(self.normball, "rb") as file:
            program = file.read()
        self.sanitized = b"__asan_init" in program or b"__tsan_init" in program
        with open(self.path("text.txt"), "w") as text:
            for i in range(400):
                text.write(f"Line {i}: the quick brown fox, {i * 7919 % 1000} times.\n")
        with open(self.path("tiny.toml"), "w") as config:
            config.write(CONFIG)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def times_of_whole(self, name, start):
        """Seconds of loading and of training, of a run that nothing interrupts. Points run side by side: the first that
        asks trains it, the others wait."""
        with self._timing:
            if name not in self._times:
                self._times[name] = self._time_whole(start())
            return self._times[name]

    @staticmethod
    def _time_whole(process):
        while not process.is_training():
            require(not process.wait(0.005), "no training:", process)
        loading = time.monotonic() - process.began
        process.wait()
        require(process.code == 0, "the whole run failed:", process)
        return loading, process.seconds - loading

    def command(self, name, steps, *settings, where="runs", launcher=()):
        """Which starts the run, or goes on with it."""
        command = [self.normball, *launcher, "train", "tiny.toml", "--name", name, "--resume", "auto"]
        for setting in (f"run.steps={steps}", f"run.dir={where}", *settings):
            command += ["--set", setting]
        return command

    def start(self, *arguments, environment=None, **options):
        return Process(self.command(*arguments, **options), self.directory, environment or {})

    def run(self, *arguments, **options):
        process = self.start(*arguments, **options)
        process.wait()
        return process

    def complete(self, *arguments, **options):
        """As run(), to the end and without a word about damage."""
        process = self.run(*arguments, **options)
        require(process.code == 0 and "finished after" in process.out, "not completed:", process)
        require("skipped" not in process.errors, "a checkpoint was damaged:", process)
        return process

    def with_fault(self, name, steps, kind, at, where="runs"):
        """Runs with the disk full, or killed, at an operation on the run's files."""
        return self.run(name, steps, where=where, environment={
            "LD_PRELOAD": self.faulty_disk, "FAULT_PREFIX": f"{where}/{name}/",
            "FAULT_KIND": kind, "FAULT_AT": str(at)})

    def operations(self, name, steps):
        """The operations on its files that a whole run does, such as "rename runs/a/config.toml"."""
        log = self.path(f"{name}.log")
        self.complete(name, steps, environment={
            "LD_PRELOAD": self.faulty_disk, "FAULT_PREFIX": f"runs/{name}/", "FAULT_LOG": log})
        with open(log) as file:
            return file.read().splitlines()

    def checkpoints(self, name, where="runs"):
        """The steps that have one."""
        directory = self.path(where, name, "checkpoints")
        names = os.listdir(directory) if os.path.isdir(directory) else []
        return sorted(int(entry[5:]) for entry in names if entry.startswith("step-"))

    def metrics(self, name, where="runs"):
        """The metrics without what differs between repetitions: times."""
        with open(self.path(where, name, "metrics.jsonl")) as file:
            return re.sub(r', "(seconds|[a-z]+_per_second)": [0-9.e+-]+', "", file.read())

    def require_same(self, name, expected, steps, where="runs"):
        """Weights, optimizer state and metrics are those of the other run, bit for bit."""
        for file in ("model.safetensors", "optimizer.safetensors"):
            contents = []
            for run in (self.path(where, name), self.path("runs", expected)):
                with open(f"{run}/checkpoints/step-{steps}/{file}", "rb") as opened:
                    contents.append(opened.read())
            require(contents[0] == contents[1], name, "differs from", expected, "in", file)
        require(self.metrics(name, where) == self.metrics(expected), name, "has other metrics")

    def remove(self, name, where="runs"):
        shutil.rmtree(self.path(where, name), ignore_errors=True)
