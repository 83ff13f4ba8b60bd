#!/usr/bin/env python3
"""Checks what docs/reliability.md promises, point by point. scripts/reliability builds first."""
import argparse
import datetime
import os
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import programs
import repetitions
from cut_link import CutLink
from interruptions import Interruptions
from rank_faults import RankFaults
from trained_runs import Failure, TrainedRuns


def points_of(options, work):
    """(what, check) of each point, the long ones or a quick choice of them."""
    def build(name):
        return os.path.join(options.build, name)
    runs = TrainedRuns(options.program or build("cli/normball"), work, build("tests/system/reliability/libfaulty_disk.so"))
    interruptions = Interruptions(runs, options.seed, options.patience)
    ranks = RankFaults(runs, options.seed, options.patience)
    link = CutLink(runs, options.seed, options.patience)
    if options.quick:
        return [
            ("kill -9", lambda: interruptions.kills(5)),
            ("crash in a checkpoint", lambda: interruptions.crash_at_every_operation(3)),
            ("disk full", lambda: interruptions.full_disk(3)),
            ("stop signals", lambda: interruptions.stop_signals(options.signals or 5, options.tally)),
            ("ranks, kill -9", lambda: ranks.kills(3)),
            ("ranks, SIGTERM", lambda: ranks.stops(2)),
            ("ranks, cut link", lambda: link.cuts(1)),
            ("soak", lambda: repetitions.soak(runs, 2000, 800)),
            ("repetition", lambda: repetitions.repeat(runs, 2, 100)),
        ]
    return [
        ("kill -9", lambda: interruptions.kills(200)),
        ("crash in a checkpoint, trainer", interruptions.crash_at_every_operation),
        ("crash in a checkpoint, library", lambda: programs.faults_of_every_operation(options.build)),
        ("disk full, trainer", lambda: interruptions.full_disk(50)),
        ("disk full, file system", lambda: interruptions.full_file_system(8)),
        ("flipped bits in a checkpoint", lambda: programs.flipped_bits(options.build, 10_000)),
        ("NaN and Inf in gradients", lambda: programs.gradients(options.build, 1000)),
        ("stop signals", lambda: interruptions.stop_signals(options.signals or 50, options.tally)),
        ("ranks, kill -9", lambda: ranks.kills(50)),
        ("ranks, hanging", lambda: ranks.hangs(10)),
        ("ranks, SIGTERM", lambda: ranks.stops(50)),
        ("ranks, cut link", lambda: link.cuts(20)),
        ("soak", lambda: repetitions.soak(runs, 10_000, 1000)),
        ("repetition", lambda: repetitions.repeat(runs, 5, 500)),
        ("damaged files", lambda: programs.readers(options.sanitized, 100_000)),
    ]


def measured(point):
    """The row (what, result, whether it held, seconds) of a point."""
    what, measure = point
    began = time.monotonic()
    try:
        result, held = measure(), True
    except Failure as failure:
        result, held = str(failure), False
    except Exception:  # a point that cannot be measured does not hold
        result, held = traceback.format_exc(), False
    seconds = time.monotonic() - began
    print(f"{'ok    ' if held else 'FAILED'}  {what}: {result} ({seconds:.0f} s)", flush=True)
    return what, result, held, seconds


def check(options, work):
    points = [point for point in points_of(options, work) if (options.only or "") in point[0]]
    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(measured, points))


def markdown(rows, seconds):
    today = datetime.date.today().isoformat()
    lines = [f"Last result, {today}, in {seconds / 60:.0f} minutes:", "",
             "| point | result | holds | seconds |", "|---|---|---|---|"]
    for what, result, held, took in rows:
        lines.append(f"| {what} | {result.splitlines()[0]} | {'yes' if held else '**no**'} | {took:.0f} |")
    return "\n".join(lines) + "\n"


def fast_directory():
    """In memory where there is some: the runs sync thousands of times."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def hand_on_signals():
    """What nohup or a shell in the background made us ignore, the programs we start would ignore as well, and a stop
    signal would do nothing. A handler that does nothing goes no further than this process."""
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(each) == signal.SIG_IGN:
            signal.signal(each, lambda *_: None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few of each, within a minute")
    parser.add_argument("--build", default="build/develop", help="where the preset develop was built")
    parser.add_argument("--sanitized", default="build/asan-ubsan", help="where asan-ubsan was built")
    parser.add_argument("--program", help="another build of normball, e.g. with a sanitizer")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="points at the same time")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random moments")
    parser.add_argument("--signals", type=int, help="signals that ask a run to stop")
    parser.add_argument("--tally", metavar="FILE",
                        help="where they are counted, piece by piece: the next run goes on from there")
    parser.add_argument("--patience", type=float, default=10,
                        help="seconds a stop may take; more where other programs have the processor")
    parser.add_argument("--only", help="only points with this text in their name")
    parser.add_argument("--markdown", metavar="FILE", help="also write the results as a table")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    hand_on_signals()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=fast_directory()) as work:
        rows = check(options, work)
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write(markdown(rows, time.monotonic() - began))
    failed = [what for what, _, held, _ in rows if not held]
    print("FAILED: " + ", ".join(failed) if failed else f"all {len(rows)} points hold")
    sys.exit(1 if failed or not rows else 0)


if __name__ == "__main__":
    main()
