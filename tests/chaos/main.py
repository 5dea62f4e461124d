"""scripts/chaos N [--real K] [--verl K] [--seed S] [--jobs J]: N rounds with the stand-in backend, K real ones."""

import argparse
import concurrent.futures
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chaos import rounds


def main() -> int:
    """Exit 1 if a round has a fault."""
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("rounds", type=int, help="rounds with the stand-in backend")
    parser.add_argument("--real", type=int, default=0, metavar="K", help="rounds with the real LLaMA-Factory")
    parser.add_argument("--verl", type=int, default=0, metavar="K", help="rounds with real GRPO on verl")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first round's seed; the next ones follow")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="rounds at the same time")
    parser.add_argument("--keep", action="store_true", help="keep the folders of rounds with faults")
    given = parser.parse_args()
    done: list[rounds.Round] = []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        seeds = range(given.seed, given.seed + given.rounds)
        running = [pool.submit(rounds.stand_in_round, seed, keep=given.keep) for seed in seeds]
        for future in concurrent.futures.as_completed(running):
            done.append(future.result())
            _tell(done[-1])
    kinds: tuple[tuple[int, Any, Any], ...] = (
        (given.real, rounds.real_shop, rounds.real_round),
        (given.verl, rounds.verl_shop, rounds.verl_round),
    )
    for count, make_shop, one_round in kinds:
        if count:
            with tempfile.TemporaryDirectory(prefix="chaos-real-") as folder:
                shop = make_shop(Path(folder))
                for seed in range(given.seed, given.seed + count):
                    done.append(one_round(seed, shop))
                    _tell(done[-1])
    print(rounds.report(done))
    return 1 if any(one.faults for one in done) else 0


def _tell(one: rounds.Round) -> None:
    text = f"seed {one.seed}: {', '.join(one.acts) or 'nothing'} -> {one.end}"
    print(text + (f" FAULTS {one.faults}" if one.faults else ""), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
