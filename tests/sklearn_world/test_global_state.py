"""The watch on global state really barks: each of the ways to disturb it fails the test that does so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DISTURBANCES = {
    "torch's global generator": "torch.manual_seed(7)",
    "numpy's global generator": "np.random.seed(7)",
    "torch's number of threads": "torch.set_num_threads(torch.get_num_threads() + 1)",
    "torch's default dtype": "torch.set_default_dtype(torch.float64)",
    "torch's gradient mode": "torch.set_grad_enabled(False)",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What pytest says of tests that disturb, each followed by a quiet one."""
    folder = tmp_path_factory.mktemp("watched")
    shutil.copy(Path(__file__).parents[1] / "conftest.py", folder / "conftest.py")
    lines = ["import numpy as np", "import torch"]
    for place, disturbance in enumerate(DISTURBANCES.values()):
        lines += [f"def test_loud_{place}():", f"    {disturbance}", f"def test_quiet_{place}():", "    pass"]
    (folder / "test_watched.py").write_text("\n".join(lines))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", str(folder)]
    package = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False).stdout


@pytest.mark.parametrize("what", DISTURBANCES)
def test_a_disturbance_is_noticed(what, report):
    assert f"the test changed {what}; is a random_state missing?" in report


def test_each_disturbance_fails_its_own_test_alone(report):
    summary = [line for line in report.splitlines() if line.startswith(("ERROR", "FAILED"))]
    assert len(summary) == len(DISTURBANCES)
    assert all("test_loud" in line for line in summary)
