"""Run every benchmark, one after the other.

python benchmarks/run_all.py --quick     # a few minutes, no data to download
python benchmarks/run_all.py --zip path/to/deezer_ego_nets.zip
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from _results import command_line

BENCHMARKS = (
    "bench_sampler.py",
    "bench_speed.py",
    "bench_scaling.py",
    "bench_large.py",
    "bench_noise.py",
    "bench_first_day.py",
    "bench_calibration.py",
    "bench_filters.py",
    "bench_directed.py",
    "bench_prior.py",
    "bench_paper.py",
    "bench_strengths.py",
    "bench_real.py",
    "bench_suspects.py",
    "bench_general_prior.py",
    "bench_design.py",
)
NEED_DEEZER = (
    "bench_noise.py",
    "bench_strengths.py",
    "bench_prior.py",
    "bench_paper.py",
    "bench_suspects.py",
    "bench_general_prior.py",
    "bench_design.py",
)


def main() -> None:
    """Read the command line and run."""
    arguments = command_line(__doc__, quick="the quick version of each", deezer=True).parse_args()
    for name in BENCHMARKS:
        command = [sys.executable, str(Path(__file__).parent / name)]
        command += ["--quick"] if arguments.quick else []
        command += ["--zip", arguments.zip_path] if arguments.zip_path and name in NEED_DEEZER else []
        print(f"\n# {name}", flush=True)
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
