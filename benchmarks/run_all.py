"""Run every benchmark, one after the other.

python benchmarks/run_all.py --quick     # a few minutes, no data to download
python benchmarks/run_all.py --zip path/to/deezer_ego_nets.zip
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "bench_sampler.py",
    "bench_scaling.py",
    "bench_noise.py",
    "bench_calibration.py",
    "bench_prior.py",
    "bench_paper.py",
)
NEED_DEEZER = ("bench_noise.py", "bench_prior.py", "bench_paper.py")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--zip", help="a local deezer_ego_nets.zip")
    arguments = parser.parse_args()
    for name in BENCHMARKS:
        command = [sys.executable, str(Path(__file__).parent / name)]
        command += ["--quick"] if arguments.quick else []
        command += ["--zip", arguments.zip] if arguments.zip and name in NEED_DEEZER else []
        print(f"\n# {name}", flush=True)
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
