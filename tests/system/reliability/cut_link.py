"""Two ranks in two network namespaces, as on two machines, whose link is cut at random moments."""
import os
import random
import re
import shutil
import subprocess
import time

from trained_runs import Process, require

STEPS = 60
TIMEOUT = 5  # seconds that a rank waits for another
ENDING = 10  # more: to find out which rank is lost, and for the end of both
PORT = 29517


def ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


class Network:
    """10.231.47.1 and .2, each in a namespace of its own, joined by a virtual cable. Nothing else is touched."""

    def __init__(self):
        self.spaces = [f"normball-{os.getpid()}-{rank}" for rank in range(2)]
        self.devices = [f"nb{os.getpid()}{end}" for end in "ab"]

    def __enter__(self):
        try:
            for space in self.spaces:
                ip("netns", "add", space)
            ip("link", "add", self.devices[0], "netns", self.spaces[0], "type", "veth",
               "peer", "name", self.devices[1], "netns", self.spaces[1])
            for rank, (space, device) in enumerate(zip(self.spaces, self.devices)):
                ip("-n", space, "address", "add", f"10.231.47.{rank + 1}/24", "dev", device)
                ip("-n", space, "link", "set", "lo", "up")
                ip("-n", space, "link", "set", device, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for space in self.spaces:
            ip("netns", "delete", space, check=False)  # the cable goes with it

    def set(self, state):
        ip("-n", self.spaces[0], "link", "set", self.devices[0], state)


def permitted():
    """Whether this user may make such a network here."""
    if shutil.which("ip") is None:
        return False
    try:
        with Network():
            return True
    except subprocess.CalledProcessError:
        return False


class CutLink:
    def __init__(self, runs, seed, patience=10):
        self.runs = runs
        self.ending = max(ENDING, patience)
        self.random = random.Random(seed)

    def _start(self, network, name):
        """Both ranks."""
        command = self.runs.command(name, STEPS)
        processes = []
        for rank, (space, device) in enumerate(zip(network.spaces, network.devices)):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                         "MASTER_ADDR": "10.231.47.1", "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": device,
                         "NORMBALL_TIMEOUT": str(TIMEOUT), "GLOG_minloglevel": "3"}
            processes.append(Process(["ip", "netns", "exec", space, *command], self.runs.directory, variables))
        return processes

    def _finish(self, network, name):
        processes = self._start(network, name)
        for process in processes:
            process.wait()
            require(process.code == 0, "fails on a whole link:", process)

    def cuts(self, count):
        if not permitted():
            return "not run: no network namespaces may be made here"
        slowest = 0.0
        with Network() as network:
            began = time.monotonic()
            self._finish(network, "link-whole")
            whole = time.monotonic() - began
            for number in range(count):
                name = f"link-{number}"
                processes = self._start(network, name)
                while not processes[0].is_training():
                    require(not processes[0].wait(0.01), "ended before the cut:", processes[0])
                too_late = processes[0].wait(self.random.uniform(0, whole / 4))
                network.set("down")
                cut = time.monotonic()
                for rank, process in enumerate(processes):
                    require(process.wait(TIMEOUT + self.ending), "rank", rank, "hangs after the cut", number)
                    if too_late or STEPS in self.runs.checkpoints(name):
                        continue
                    require(process.code == 1, "exit code:", process)
                    require(re.search(rf"rank {1 - rank}\b", process.errors), "does not name the other:", process)
                slowest = max(slowest, time.monotonic() - cut)
                network.set("up")
                self._finish(network, name)
                self.runs.require_same(name, "link-whole", STEPS)
                self.runs.remove(name)
        return f"{count} cuts, slowest end {slowest:.1f} s; every resume was bit-exact"
