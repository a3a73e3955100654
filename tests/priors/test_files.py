"""Priors on disk and in pickles: what was saved comes back, and nothing else is accepted."""

from __future__ import annotations

import copy
import os
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from small_priors import Malicious, quick, small_grids

from sklearn_graphid import GraphPriorScore
from sklearn_graphid._utils._torch import torch_threads
from sklearn_graphid.priors._files import PRIOR, digest_arrays, read_arrays, write_arrays

skops = pytest.importorskip("skops.io")


@pytest.fixture(scope="module", params=["ppgn", "edp-gnn"])
def prior(request) -> GraphPriorScore:
    with torch_threads(1):
        return quick(architecture=request.param, max_epochs=1).fit(small_grids(6))


@pytest.fixture
def noisy() -> np.ndarray:
    upper = np.triu(np.random.default_rng(0).normal(size=(10, 10)), 1)
    return upper + upper.T


@pytest.fixture
def saved(prior, tmp_path) -> Path:
    path = tmp_path / "prior.safetensors"
    prior.save(path)
    return path


def through_file(prior: GraphPriorScore, path: Path) -> GraphPriorScore:
    prior.save(path)
    return GraphPriorScore.load(path)


def through_joblib(prior: GraphPriorScore, path: Path) -> GraphPriorScore:
    joblib.dump(prior, path)
    return joblib.load(path)


def through_skops(prior: GraphPriorScore, path: Path) -> GraphPriorScore:
    skops.dump(prior, path)
    assert skops.get_untrusted_types(file=path) == ["sklearn_graphid.priors._score.GraphPriorScore"]
    return skops.load(path, trusted=skops.get_untrusted_types(file=path))


WAYS = {
    "save and load": through_file,
    "pickle": lambda prior, path: pickle.loads(pickle.dumps(prior)),
    "joblib": through_joblib,
    "deepcopy": lambda prior, path: copy.deepcopy(prior),
    "skops": through_skops,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_prior_survives_every_way_to_keep_it(prior, noisy, tmp_path, way):
    other = WAYS[way](prior, tmp_path / "kept")
    np.testing.assert_array_equal(other.denoise(noisy, 0.5), prior.denoise(noisy, 0.5))
    np.testing.assert_array_equal(other.transform(small_grids(2)), prior.transform(small_grids(2)))
    assert other.get_params() == prior.get_params()
    fitted = {name for name in vars(prior) if name.endswith("_")}
    assert fitted == {name for name in vars(other) if name.endswith("_")}
    np.testing.assert_equal({name: getattr(other, name) for name in fitted}, {n: getattr(prior, n) for n in fitted})
    assert {name: type(getattr(other, name)) for name in fitted} == {n: type(getattr(prior, n)) for n in fitted}


@pytest.mark.parametrize("way", ["save and load", "pickle"])
def test_a_copy_goes_on_learning_like_the_original(prior, tmp_path, way):
    graphs = small_grids(1, seed=1)
    original, other = copy.deepcopy(prior), WAYS[way](prior, tmp_path / "kept")
    original.partial_fit(graphs)
    other.partial_fit(graphs)
    for name, value in original.weights_.items():
        np.testing.assert_array_equal(other.weights_[name], value)


@pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy", "save and load"])
def test_hash_is_that_of_the_copy(prior, tmp_path, way):
    assert joblib.hash(WAYS[way](prior, tmp_path / "kept")) == joblib.hash(prior)


def test_file_forgets_what_belongs_to_this_machine(prior, tmp_path):
    local = copy.deepcopy(prior).set_params(checkpoint_path=tmp_path / "c", random_state=np.random.RandomState(0))
    loaded = through_file(local, tmp_path / "prior.safetensors")
    assert loaded.checkpoint_path is None
    assert loaded.random_state is None


def test_numpy_parameters_are_saved(prior, tmp_path):
    odd = copy.deepcopy(prior).set_params(batch_size=np.int64(8), learning_rate=np.float32(0.5), warm_start=np.True_)
    assert through_file(odd, tmp_path / "prior.safetensors").get_params()["batch_size"] == 8


def test_an_existing_file_is_replaced_and_nothing_else_is_left(prior, saved):
    prior.save(saved)
    assert os.listdir(saved.parent) == [saved.name]


def test_save_names_the_path_that_was_given(prior, tmp_path):
    with pytest.raises(OSError, match=r"missing/prior'$"):
        prior.save(tmp_path / "missing" / "prior")
    with pytest.raises(TypeError, match="path is a int; expected the name of a file"):
        prior.save(3)
    with pytest.raises(ValueError, match="not fitted"):
        GraphPriorScore().save(tmp_path / "prior.safetensors")


def test_file_may_be_moved_and_read_only(prior, saved, tmp_path, noisy):
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    shutil.move(saved, moved)
    moved.chmod(0o400)
    np.testing.assert_array_equal(GraphPriorScore.load(moved).denoise(noisy, 0.5), prior.denoise(noisy, 0.5))


# Files that are not what they should be: truncated, changed, foreign or too large.


def refused(path: Path, complaint: str, load: Any = GraphPriorScore.load) -> None:
    """The file is refused in a message that names it and is short."""
    with pytest.raises(ValueError, match=complaint) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("keep", [0, 7, 8, 0.5, -1])
def test_truncated_file_is_refused(saved, keep):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    refused(saved, "is not a whole safetensors file")


def test_a_flipped_bit_is_noticed_wherever_it_is(saved):
    content = saved.read_bytes()
    begin, rng = 8 + int.from_bytes(content[:8], "little"), np.random.default_rng(0)
    for place in [0, 7, 8, *rng.integers(8, begin, 10), begin, *rng.integers(begin, len(content), 3), -1]:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(changed)
        refused(saved, "safetensors file|was changed|format version")


def test_digest_tells_names_types_shapes_and_texts_apart():
    zeros = np.zeros(4, dtype=np.float32)
    variants = [
        ({"a": zeros}, ""),
        ({"b": zeros}, ""),
        ({"a": zeros.reshape(2, 2)}, ""),
        ({"a": zeros.view(np.int32)}, ""),
        ({"a": zeros[:2], "b": zeros[2:]}, ""),
        ({"a": zeros}, "text"),
    ]
    assert len({digest_arrays(*variant) for variant in variants}) == len(variants)
    assert digest_arrays({"a": zeros, "b": zeros}) == digest_arrays({"b": zeros, "a": zeros})


def test_foreign_file_is_refused_by_what_it_is(saved, tmp_path):
    path = tmp_path / "foreign.safetensors"
    save_file({"weight": np.zeros(3)}, path)
    refused(path, "is a safetensors file, but not a sklearn_graphid prior")
    write_arrays(path, "sklearn_graphid training checkpoint", {"a": np.zeros(2)}, {})
    refused(path, "is a safetensors file, but not a sklearn_graphid prior")
    with safe_open(saved, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata() | {"version": "99"}
    save_file(arrays, path, metadata=metadata)
    refused(path, "has format version '99'; this release reads version 2")


def test_renamed_pickle_is_refused_and_does_not_run(tmp_path):
    path, target = tmp_path / "prior.safetensors", tmp_path / "was_here"
    for protocol in (0, 5):
        path.write_bytes(pickle.dumps(Malicious(target), protocol=protocol))
        refused(path, "is not a whole safetensors file")
    torch.save({"weights": Malicious(target)}, path)
    refused(path, "is not a whole safetensors file")
    assert not target.exists()


@pytest.mark.parametrize("load", [GraphPriorScore.load, GraphPriorScore.from_edpgnn_checkpoint])
def test_what_is_no_file_is_not_waited_for(tmp_path, load):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    refused(path, "is not a regular file", load)
    refused(tmp_path, "is a folder", load)
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(path, "is not a regular file", load)
    with pytest.raises(TypeError, match="path is a int; expected the name of a file"):
        load(3)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(path.with_name("nowhere"))


@pytest.mark.parametrize("load", [GraphPriorScore.load, GraphPriorScore.from_edpgnn_checkpoint])
def test_file_that_is_too_large_is_refused_unread(tmp_path, load):
    path = tmp_path / "large"
    for n_bytes, complaint in ((2**25, "is not"), (2**25 + 1, "has 33,554,433 bytes; expected .* at most 33,554,432")):
        with path.open("wb") as file:
            file.truncate(n_bytes)
        refused(path, complaint, load)


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    path = tmp_path / "limit"
    facts = {"a": "x" * (2**23 - len('{"a": ""}'))}
    write_arrays(path, PRIOR, {}, facts)
    assert read_arrays(path, PRIOR)[1] == facts
    for arrays, more in (({}, {"a": facts["a"] + "x"}), ({"a": np.zeros(2**23, dtype=np.float32)}, {})):
        with pytest.raises(ValueError, match="would be too large to be read again"):
            write_arrays(path, PRIOR, arrays, more)


# Whole files whose content makes no sense.


def with_change(facts: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    facts = copy.deepcopy(facts)
    inner = facts
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return facts


@pytest.mark.parametrize("text", ["", "null", "[" * 100_000, "{" + " " * 2**23 + "}"])
def test_facts_that_are_no_json_object_are_refused(saved, text):
    arrays, _ = read_arrays(saved, PRIOR)
    metadata = {"format": PRIOR, "version": "2", "facts": text, "sha256": digest_arrays(arrays, text)}
    save_file(arrays, saved, metadata=metadata)
    refused(saved, "has metadata that is not a JSON object of at most 8,388,608 bytes")


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (("parameters", "architecture"), "transformer", "'architecture' parameter"),
        (("parameters", "checkpoint_path"), "/etc/hosts", "'checkpoint_path' should be null"),
        (("parameters", "device"), "abacus", "device='abacus' is not a torch device"),
        (("parameters", "learning_rate"), "a" * 10**6, "'learning_rate' parameter"),
        (("parameters", "colour"), "red", "colour"),
        (("network_settings", "colour"), "red", "unexpected keyword argument 'colour'"),
        (("network_settings",), None, "NoneType"),
        (("sigmas",), [0.03, 0.5], "'sigmas' is not in descending order"),
        (("size_range",), [9, 8], "'size_range' is 9 to 8"),
        (("known_loss",), {"share": [0.5, 1], "mean": [[0, 0]], "covariance": [np.eye(2).tolist()] * 2}, ""),
        (("loss_history", "training"), ["low"], "could not convert string to float"),
        (("n_iter",), None, "NoneType"),
    ],
)
def test_facts_that_make_no_sense_are_refused(saved, place, value, complaint):
    arrays, facts = read_arrays(saved, PRIOR)
    write_arrays(saved, PRIOR, arrays, with_change(facts, place, value))
    refused(saved, rf"does not describe a prior that this release knows: .*{complaint}")


def test_missing_facts_are_refused(saved):
    arrays, facts = read_arrays(saved, PRIOR)
    for name in facts.keys() - {"known_loss"}:
        write_arrays(saved, PRIOR, arrays, {key: value for key, value in facts.items() if key != name})
        refused(saved, name)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda value: value[:-1], "do not fit the architecture"),
        (lambda value: value.ravel(), "do not fit the architecture"),
        (lambda value: value.astype(np.float16), "that are not finite float32 numbers"),
        (lambda value: np.full_like(value, np.nan), "that are not finite float32 numbers"),
        (lambda value: np.full_like(value, 1e38), "no finite answer for a ring"),
    ],
)
def test_weights_that_do_not_work_are_refused(saved, change, complaint):
    arrays, facts = read_arrays(saved, PRIOR)
    name = max(arrays, key=lambda name: arrays[name].size)
    write_arrays(saved, PRIOR, arrays | {name: change(arrays[name])}, facts)
    refused(saved, complaint)


def test_missing_additional_and_foreign_weights_are_refused(saved):
    arrays, facts = read_arrays(saved, PRIOR)
    name = next(iter(arrays))
    for changed in ({key: arrays[key] for key in arrays if key != name}, arrays | {"more": arrays[name]}, {}):
        write_arrays(saved, PRIOR, changed, facts)
        refused(saved, "do not fit the architecture|more layers than there are arrays")
    other = "edp-gnn" if facts["parameters"]["architecture"] == "ppgn" else "ppgn"
    write_arrays(saved, PRIOR, arrays, with_change(facts, ("parameters", "architecture"), other))
    refused(saved, f"no network '{other}' has these settings")


def places(value: Any, place: tuple[Any, ...] = ()) -> Any:
    """All places in nested lists and objects."""
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from places(entry, (*place, key))


def test_any_change_of_a_fact_is_refused_or_gives_a_prior_that_works(saved):
    odd_values = (None, True, 0, -1, 2, 1.5, 1e-300, 1e300, 10**30, np.nan, np.inf, "", "cpu", [], [[]], [2, 1], {})
    arrays, facts = read_arrays(saved, PRIOR)
    mutations = [(place, value) for place in places(facts) for value in odd_values]
    n_refused = n_working = 0
    graph = small_grids(1)[0]
    for place, value in random.Random(0).sample(mutations, 12):
        write_arrays(saved, PRIOR, arrays, with_change(facts, place, value))
        try:
            prior = GraphPriorScore.load(saved)
        except ValueError as error:
            n_refused += str(saved) in str(error)
        else:
            assert np.isfinite(prior.denoise(graph, float(prior.sigmas_[0]))).all(), (place, value)
            assert np.isfinite(prior.transform([graph])).all(), (place, value)
            n_working += 1
    assert n_refused + n_working == 12
    assert n_refused > 3
