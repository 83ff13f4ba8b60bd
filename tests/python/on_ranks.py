"""Starts real ranks on this machine, with gloo, and runs functions of a test module in each."""
import datetime
import importlib
import os
import socket
import sys
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

TIMEOUT = 20  # seconds of the group: a rank that waits for nothing fails in the end


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def _run(rank, size, port, module, names, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=TIMEOUT))
    for name in names:
        try:
            where, _, function = name.rpartition(":")
            getattr(importlib.import_module(where or module), function)()
            queue.put((name, rank, None))
        except BaseException:
            queue.put((name, rank, traceback.format_exc()))
            break
    else:
        dist.destroy_process_group()
    queue.close()
    queue.join_thread()
    os._exit(0)  # what a failed group left running would keep it


def run(size, module, names):
    """{name: None, or what went wrong in which rank}: each function, of this module or "another:name", in turn, in all ranks."""
    context = mp.get_context("spawn")
    queue = context.Queue()
    port = free_port()
    sys.modules["__main__"].__spec__ = None  # pytest's: the children need not run it
    children = [context.Process(target=_run, args=(rank, size, port, module, names, queue)) for rank in range(size)]
    for child in children:
        child.start()
    results = {name: "did not run" for name in names}
    told = {}
    for _ in range(size * len(names)):
        try:
            name, rank, error = queue.get(timeout=4 * TIMEOUT)
        except Exception:
            break
        told.setdefault(name, {})[rank] = error
        if error is not None:
            before = results[name] if results[name] != "did not run" else ""
            results[name] = f"{before}in rank {rank}:\n{error}\n"
        elif len(told[name]) == size and not any(told[name].values()):
            results[name] = None
        if error is not None and len(told[name]) == size:
            break
    for child in children:
        child.join(TIMEOUT)
        if child.is_alive():
            child.kill()
    return results


def expect(kind, text, call):
    """The error that call() raises, which must be of that kind and have these words."""
    try:
        call()
    except kind as error:
        assert text in str(error), f"expected '{text}' in: {error}"
        return error
    raise AssertionError(f"no {kind.__name__} with '{text}'")
