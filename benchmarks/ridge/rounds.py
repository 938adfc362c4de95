"""Run boards of problems in interleaved rounds of benchopt, every solver at its best settings.

    python benchmarks/ridge/rounds.py quick                 make bench-quick
    python benchmarks/ridge/rounds.py peers growth regret   make bench, with small.py and board.py

A board is a benchopt configuration in boards/. For each of its problems:

    round 0   sketchridge alone; its time sets how long the others may search
    round 1   every solver of the board sweeps its settings from scratch
    rounds 2… sketchridge and the contenders in turn, each at the settings that were its fastest

Results stay in a folder, a file a round; what is there already is not run again.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

from benchmark_utils.runs import (
    ALL_LEVELS,
    AUTO,
    REPLAY,
    best_run,
    is_certified,
    is_our_stochastic,
    is_ours,
    is_stochastic_peer,
    read_problem,
    times_to,
)

HERE = Path(__file__).resolve().parent
# These bring thread pools of their own, so they run in processes of their own.
APART = ("rlaopt", "sklearnex")
# Whoever is this many times slower than the best of its group gets no further rounds …
CLOSE = 3.0
# … and is left out at the penalties in between when it was so slow at both ends.
HOPELESS = 10.0
ENDS = 2  # the first objectives of a board are the ends
# A solver may search for so many times the seconds that sketchridge took to the finest level.
SEARCH, LEAST_SEARCH = 40.0, 3.0
# Boards of our own candidates need less: one that is five times slower than the choice is no
# regret, and of those that were beaten clearly in the first round none will be the best.
OWN_BOARDS = {"regret": {"search": 5.0, "close": 1.5}}
# Runs below this many seconds are repeated within a round, to about as long in all.
SHORT, MOST_REPEATS = 0.25, 5
NOTHING = "No output produced"
FAILURE = re.compile(r"\|--.*:.*(?:error|diverged|not installed)")

# Who competes with whom: the peers, the stochastic ones, our candidates, the stochastic ones.
GROUPS = (
    lambda solver: not is_ours(solver),
    is_stochastic_peer,
    lambda solver: is_certified(solver) and solver != AUTO,
    is_certified,
    is_our_stochastic,
)


def main():
    import yaml

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("boards", nargs="+", help="names of configurations in boards/")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--only", default="", help="only problems whose dataset has this in it")
    parser.add_argument("--timeout", type=float, help="the longest search, instead of the board's")
    arguments = parser.parse_args()
    note_machine(arguments.results)
    for board in arguments.boards:
        config = yaml.safe_load((HERE / "boards" / f"{board}.yml").read_text())
        config |= OWN_BOARDS.get(board, {})
        if arguments.timeout is not None:
            config["timeout"] = arguments.timeout
        for dataset in config["dataset"]:
            if arguments.only not in dataset:
                continue
            if dataset.startswith("published") and "SKETCHRIDGE_DATA" not in os.environ:
                print(f"{dataset} is left out: SKETCHRIDGE_DATA names no folder", file=sys.stderr)
            else:
                run_dataset(arguments.results / board, config, dataset)


def run_dataset(folder, config, dataset):
    """All penalties of a dataset; those after the two ends only with whom the ends left."""
    solvers, left = config["solver"], set()
    for place, objective in enumerate(config["objective"]):
        here = folder / re.sub(r"[^A-Za-z0-9.]+", "-", f"{dataset} {objective}").strip("-")
        first = run_problem(here, dataset, objective, solvers, config)
        left |= close_ones(first, HOPELESS).keys()
        if place + 1 >= ENDS:
            solvers = sorted(left)


def run_problem(folder, dataset, objective, solvers, config):
    """Rounds 0 and 1, whose runs are returned, and the rest."""
    most = float(config["timeout"])
    problem = ("-d", dataset, "-o", objective)
    benchopt(folder, 0, problem, [AUTO], most)
    searched = search_seconds(read_problem(folder), most, config.get("search", SEARCH))
    benchopt(folder, 1, problem, [solver for solver in solvers if solver != AUTO], searched)
    first = [run for run in read_problem(folder) if run.round[0] <= 1]
    settings = close_ones(first, config.get("close", CLOSE))
    names = first[0].problem if first else ("", "")
    for number in range(2, config["n-repetitions"] + 1):
        # Every other round in reverse: nobody always runs in the wake of the same neighbour.
        again = sorted(settings, reverse=number % 2 == 0)
        replay = {
            f"{names[0]} | Ridge[lam={names[1]}] | {solver}": repeated(settings[solver])
            for solver in again
        }
        benchopt(folder, number, problem, again, most, replay)
    return first


def repeated(settings):
    """The settings in order, the short ones several times: a round keeps the fastest."""
    return [
        setting
        for setting, seconds in sorted(settings.items())
        for _ in range(min(max(1, round(SHORT / seconds)), MOST_REPEATS))
    ]


def search_seconds(runs, most, search=SEARCH):
    """How long the others may search, from our own time to the finest level."""
    took = [spread.median for spread in times_to(runs, min(ALL_LEVELS)).values()]
    return min(max([LEAST_SEARCH, *(search * seconds for seconds in took)]), most)


def close_ones(runs, factor):
    """Who is close to the best of its group at some level: {solver: {setting: seconds}}.

    Our own automatic choice always is, at every level that it reached.
    """
    chosen = {}
    for level in ALL_LEVELS:
        times = {solver: spread.median for (_, solver), spread in times_to(runs, level).items()}
        for belongs in (lambda solver: solver == AUTO, *GROUPS):
            group = {solver: seconds for solver, seconds in times.items() if belongs(solver)}
            best = min(group.values(), default=float("inf"))
            for solver, seconds in group.items():
                if seconds < float("inf") and seconds <= factor * best:
                    run = best_run(runs, solver, level)
                    chosen.setdefault(solver, {})[run.setting] = run.seconds
    return chosen


def benchopt(folder, number, problem, solvers, timeout, replay=None):
    """One round of one problem, in a process of its own (or two), unless it is there already."""
    apart = [solver for solver in solvers if solver.startswith(APART)]
    together = [solver for solver in solvers if solver not in apart]
    for suffix, some in (("", together), ("-apart", apart)):
        output = folder / f"{number}{suffix}.parquet"
        if not some or output.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        failed = call(output, [*problem, "--timeout", str(round(timeout))], some, replay)
        took = f"{time.strftime('%H:%M')}  {time.perf_counter() - began:6.0f} s"
        outcome = f"  {failed} FAILED: see {output.with_suffix('.log')}" if failed else ""
        print(f"{took}  {folder.name}  {output.stem}: {len(some)} solvers{outcome}", flush=True)


def call(output, options, solvers, replay):
    """Call benchopt, and count the solvers that failed."""
    environment = dict(os.environ)
    if replay is not None:
        path = output.parent / "replay.json"
        path.write_text(json.dumps(replay))
        environment[REPLAY] = str(path)
    command = [sys.executable, "-m", "benchopt", "run", str(HERE), *options]
    command += [word for solver in solvers for word in ("-s", solver)]
    command += ["-r", "1", "--no-cache", "--no-plot", "--output", str(output)]
    log = output.with_suffix(".log")
    with log.open("w") as file:
        streams = {"stdout": file, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, env=environment, check=False, **streams)
    said = log.read_text()
    failures = len(FAILURE.findall(said))
    # benchopt also ends so where every solver left the problem out.
    return failures if NOTHING in said else max(failures, done.returncode)


def note_machine(results):
    """Keep what the figures were measured on, and how busy it was."""
    results.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the machine is busy (load {load:.1f}): the times will wander", file=sys.stderr)
    machine = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": platform.system(),
        "python": platform.python_version(),
        "load": round(load, 2),
        "date": time.strftime("%Y-%m-%d"),
        "packages": _packages(),
    }
    (results / "machine.json").write_text(json.dumps(machine, indent=1))


def _processor():
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _packages():
    """The versions of what requirements.txt names, and of the two that it does not."""
    lines = (HERE / "requirements.txt").read_text().splitlines()
    pinned = [line.split("==")[0] for line in lines if "==" in line and "# tool" not in line]
    return {name: _version(name) for name in ("sketchridge", *pinned, "sklearn-contrib-lightning")}


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


if __name__ == "__main__":
    main()
