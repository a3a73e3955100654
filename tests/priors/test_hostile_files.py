"""Files that somebody made to do harm: each is refused by name and in no time, or it holds a prior that works."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from sklearn_graphid import GraphPriorScore
from sklearn_graphid.datasets import make_grid_graphs
from sklearn_graphid.priors._files import CHECKPOINT, PRIOR, digest_arrays, read_arrays, write_arrays

GRAPHS = make_grid_graphs(4, min_nodes=9, max_nodes=12, min_side=3, max_side=4, random_state=0)
# Of the processor. Coverage traces torch's own unpickler, which then takes several times as long.
MOST_SECONDS = 1.0 if sys.gettrace() is None else 10.0
MOST_MEGABYTES = 100


def make_prior(architecture: str = "ppgn", **changes: Any) -> GraphPriorScore:
    return GraphPriorScore(architecture, n_levels=2, max_epochs=1, random_state=0, **changes)


@pytest.fixture(scope="module", params=["ppgn", "edp-gnn"])
def content(request, tmp_path_factory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and facts of a valid file."""
    path = tmp_path_factory.mktemp("valid") / "prior"
    make_prior(request.param).fit(GRAPHS).save(path)
    return read_arrays(path, PRIOR)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "hostile"


def write_raw(path: Path, arrays: dict[str, Any], text: str, kind: str = PRIOR) -> None:
    """A file whose digest is right, whatever its facts are."""
    metadata = {"format": kind, "version": "2", "facts": text, "sha256": digest_arrays(arrays, text)}
    save_file(arrays, path, metadata=metadata)


def refused(path: Path, load: Any = GraphPriorScore.load) -> str:
    """The refusal, which names the file and does not dawdle."""
    start = time.process_time()
    with pytest.raises(ValueError, match=r"hostile") as caught:
        load(path)
    assert time.process_time() - start < MOST_SECONDS
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1_500
    return str(caught.value)


MEASURE = """
import sys
from sklearn_graphid import GraphPriorScore
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
before = peak()
for path in sys.argv[1:]:
    load = GraphPriorScore.from_edpgnn_checkpoint if path.endswith(".pth") else GraphPriorScore.load
    try:
        load(path)
    except ValueError as error:
        assert path in str(error)
    else:
        raise AssertionError(path)
print(peak() - before)
"""


# Weights files.


def spoilt(facts: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    facts = copy.deepcopy(facts)
    inner = facts
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return facts


@pytest.mark.parametrize("value", [10**6, 10**12, 10**400, -1, 0, 1.5, True, None, "6", [6], float("inf")])
@pytest.mark.parametrize("name", ["n_blocks", "width", "n_frequencies", "gin_depth", "gin_width", "node_features"])
def test_sizes_are_bounded_by_what_the_file_holds(content, path, name, value):
    arrays, facts = content
    write_raw(path, arrays, json.dumps(spoilt(facts, ("network_settings", name), value)))
    refused(path)


@pytest.mark.parametrize("channels", [[2] * 10**6, [2, 10**9], [3, 2], [2], [], 2, [2, [2]], [2, -1]])
def test_edge_channels_are_bounded(content, path, channels):
    arrays, facts = content
    write_raw(path, arrays, json.dumps(spoilt(facts, ("network_settings", "edge_channels"), channels)))
    refused(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("n_iter",), float("inf")),
        (("n_iter",), -1),
        (("n_iter",), 10**400),
        (("size_range",), [2, 10**12]),
        (("size_range",), [9, 3]),
        (("sigmas",), [0.5, float("nan")]),
        (("sigmas",), [0.03, 0.5]),
        (("sigmas",), [0.5, 1e-300]),
        (("sigmas",), [0.5] * 2),
        (("sigmas",), list(range(10**5, 0, -1))),
        (("known_loss",), {"share": [0.5], "mean": [[0, 0]], "covariance": [[[0, 0], [0, 0]]]}),
        (("known_loss",), {"share": [0.5, 1], "mean": [[0, 0]] * 2, "covariance": [[[-1, 0], [0, 1]]] * 2}),
        (("known_loss",), {"share": [0.5, 1], "mean": [[1e300, 0]] * 2, "covariance": [[[1, 0], [0, 1]]] * 2}),
        (("known_loss",), {"share": [0.5, [1]], "mean": "a", "covariance": 3}),
        (("loss_history",), {"training": [1], "validation": [], "seconds": []}),
        (("loss_history", "training"), ["1"]),
        (("loss_history", "training"), [10**400]),
        (("parameters",), []),
        (("parameters", "n_levels"), 10**9),
        (("parameters", "learning_rate"), "a" * 10**6),
        (("network_settings",), []),
        (("architecture",), ["ppgn"]),
    ],
)
def test_facts_that_make_no_sense_are_refused(content, path, place, value):
    arrays, facts = content
    write_raw(path, arrays, json.dumps(spoilt(facts, place, value)))
    refused(path)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 900 + "]" * 900,
        '{"a": [' + "[]," * 10**6 + "[]]}",
        '{"a": [' + "1," * 10**6 + "1]}",
        '{"n_iter": 1, "n_iter": 2}',
        "9" * 10_000,
        "null",
        "",
        '"' + "a" * 9 * 2**20 + '"',
    ],
    ids=["lists", "objects", "depth", "many lists", "numbers", "twice", "digits", "null", "nothing", "long"],
)
def test_json_that_is_no_description_is_refused(content, path, text):
    write_raw(path, content[0], text)
    refused(path)


def test_missing_facts_are_refused_or_have_a_default(content, path):
    arrays, facts = content
    for name in facts:
        write_raw(path, arrays, json.dumps({key: value for key, value in facts.items() if key != name}))
        if name in ("architecture", "known_loss", "n_iter"):  # which files of earlier releases did not have
            GraphPriorScore.load(path)
        else:
            refused(path)


@pytest.mark.parametrize("change", ["1e300", "float32 maximum", "1e15", "float16", "missing", "more", "flat", "empty"])
def test_weights_that_do_not_work_are_refused(content, path, change):
    arrays, facts = content
    name = max(arrays, key=lambda name: arrays[name].size)
    value = arrays[name]
    others = {key: arrays[key] for key in arrays if key != name}
    changed = {
        "1e300": {**others, name: np.full(value.shape, 1e300)},
        "float32 maximum": {key: np.full_like(arrays[key], np.finfo(np.float32).max) for key in arrays},
        "1e15": {key: np.full_like(arrays[key], 1e15) for key in arrays},
        "float16": {**others, name: value.astype(np.float16)},
        "missing": others,
        "more": {**arrays, "more": value},
        "flat": {**others, name: value.ravel()},
        "empty": {**others, name: value[:0]},
    }
    write_raw(path, changed[change], json.dumps(facts))
    refused(path)


def test_network_of_the_other_architecture_is_refused(content, path):
    arrays, facts = content
    other = "edp-gnn" if facts["architecture"] == "ppgn" else "ppgn"
    write_raw(path, arrays, json.dumps(facts | {"architecture": other}))
    refused(path)
    both = spoilt(facts | {"architecture": other}, ("parameters", "architecture"), other)
    write_raw(path, arrays, json.dumps(both))
    refused(path)


def test_headers_and_files_beyond_any_sense_are_refused_unread(path):
    path.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    refused(path)
    with path.open("wb") as file:
        file.truncate(2**40)  # a terabyte of nothing
    refused(path)
    refused(path, GraphPriorScore.from_edpgnn_checkpoint)


def test_a_great_many_arrays_are_refused(path):
    save_file({str(i): np.zeros(1, dtype=np.float32) for i in range(20_000)}, path, metadata={"format": PRIOR})
    refused(path)


@pytest.mark.parametrize("load", [GraphPriorScore.load, GraphPriorScore.from_edpgnn_checkpoint])
def test_what_is_no_file_is_not_waited_for(path, load):
    os.mkfifo(path)
    refused(path, load)
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(path, load)
    with pytest.raises(TypeError, match="path is a int; expected the name of a file"):
        load(3)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(path.with_name("nowhere"))


ODD_VALUES = (
    *(None, True, 0, -1, 1, 2, 3, 1.5, 1e-300, 1e300, 10**6, 10**30, float("nan"), float("inf"), -float("inf")),
    *("", "cpu", "a" * 1_000, [], [[]], [1, 2], [2, 1], {}, {"a": 1}),
)


def places(value: Any, place: tuple[Any, ...] = ()) -> Any:
    """All places in nested lists and objects."""
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from places(entry, (*place, key))


def test_any_change_of_a_fact_is_refused_or_gives_a_prior_that_works(content, path):
    arrays, facts = content
    rng = random.Random(0)
    mutations = [(place, value) for place in places(facts) for value in ODD_VALUES]
    n_refused = n_working = 0
    for place, value in rng.sample(mutations, 100):
        write_raw(path, arrays, json.dumps(spoilt(facts, place, value)))
        start = time.process_time()
        try:
            prior = GraphPriorScore.load(path)
        except ValueError as error:
            n_refused += str(path) in str(error)
        else:
            clean = prior.set_params(device="cpu").denoise(GRAPHS[0], float(prior.sigmas_[0]))
            assert np.isfinite(clean).all(), (place, value)
            assert np.isfinite(prior.transform(GRAPHS[:1])).all(), (place, value)
            n_working += 1
        assert time.process_time() - start < MOST_SECONDS, (place, value)
    assert n_refused + n_working == 100
    assert n_refused > 60


# Checkpoints of a training.


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> tuple[dict[str, Any], dict[str, Any]]:
    path = tmp_path_factory.mktemp("valid") / "training"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphPriorScore, "_calibrate", None)  # the call is a TypeError, when the training is over
        with pytest.raises(TypeError):
            make_prior(checkpoint_path=path).fit(GRAPHS)
    return read_arrays(path, CHECKPOINT)


def resume(path: Path) -> GraphPriorScore:
    return make_prior(checkpoint_path=path).set_params(random_state=None).fit(GRAPHS)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("numbers", "n_steps"), float("inf")),
        (("numbers", "n_steps"), -1),
        (("numbers", "n_steps"), 10**400),
        (("numbers", "n_epochs"), 10**9),
        (("numbers", "seconds"), float("nan")),
        (("numbers", "seconds"), -1),
        (("numbers", "best_loss"), "low"),
        (("numbers",), []),
        (("history",), []),
        (("history", "training"), [0.1] * 10**5),
        (("fingerprint",), []),
        (("fingerprint", "seeds"), [1]),
        (("fingerprint", "seeds"), [1, 2, -1]),
        (("fingerprint", "seeds"), [1, 2, "3"]),
    ],
)
def test_checkpoint_whose_facts_make_no_sense_is_refused(checkpoint, path, place, value):
    arrays, facts = checkpoint
    write_raw(path, arrays, json.dumps(spoilt(facts, place, value)), CHECKPOINT)
    before = path.read_bytes()
    refused(path, resume)
    assert path.read_bytes() == before


def test_checkpoint_whose_arrays_do_not_fit_is_refused(checkpoint, path):
    arrays, facts = checkpoint
    name = next(name for name in arrays if name.startswith("second_moments/"))
    others = {key: arrays[key] for key in arrays if key != name}
    for changed in (
        others,
        {**others, name: arrays[name][:0]},
        {**others, name: arrays[name] - 1},
        {**others, name: np.full(arrays[name].shape, 1e300)},
        {**arrays, "other/thing": arrays[name]},
        {**arrays, "thing": arrays[name]},
        {key: arrays[key] for key in arrays if not key.startswith("best/")},
    ):
        write_raw(path, changed, json.dumps(facts), CHECKPOINT)
        refused(path, resume)
    write_arrays(path, CHECKPOINT, arrays, facts)
    assert resume(path).n_iter_ == 1  # as it was, it goes on


# Memory, on the worst of each kind.


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_refusals_take_little_memory(content, tmp_path):
    arrays, facts = content
    paths = [tmp_path / name for name in ("numbers", "lists", "weights", "blocks")]
    write_raw(paths[0], arrays, '{"a": [' + "1.5," * 2 * 10**6 + "1]}")
    write_raw(paths[1], arrays, '{"a": [' + "[]," * 2 * 10**6 + "1]}")
    write_raw(paths[2], {"a": np.zeros(7 * 2**20, dtype=np.float32)}, json.dumps(facts))
    write_raw(paths[3], arrays, json.dumps(spoilt(facts, ("network_settings", "n_blocks"), 10**6)))
    root = str(Path(sys.modules["sklearn_graphid"].__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, paths)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < MOST_MEGABYTES


def test_several_threads_may_read_at_once(content, path):
    arrays, facts = content
    write_raw(path, arrays, json.dumps(facts))
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(GraphPriorScore.load(path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
