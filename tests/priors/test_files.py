"""Priors on disk and in pickles: what was saved comes back, and nothing else is accepted."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from sklearn_graphid import GraphPriorScore
from sklearn_graphid._utils._torch import torch_threads
from sklearn_graphid.datasets import make_grid_graphs
from sklearn_graphid.priors._files import PRIOR, digest_arrays, read_arrays, write_arrays

skops = pytest.importorskip("skops.io")


def small_grids(n_graphs: int, seed: int = 0) -> list[np.ndarray]:
    return make_grid_graphs(n_graphs, min_nodes=9, max_nodes=12, min_side=3, max_side=4, random_state=seed)


@pytest.fixture(scope="module", params=["ppgn", "edp-gnn"])
def prior(request) -> GraphPriorScore:
    with torch_threads(1):
        return GraphPriorScore(request.param, n_levels=3, max_epochs=1, random_state=0).fit(small_grids(6))


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


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_goes_on_learning_like_the_original(prior, tmp_path, way):
    graphs = small_grids(3, seed=1)
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


def test_a_write_that_fails_leaves_the_old_file(prior, saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        prior.save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_save_gives_the_mode_of_the_umask_and_follows_links(prior, saved, tmp_path):
    (tmp_path / "opened").touch()
    assert saved.stat().st_mode == (tmp_path / "opened").stat().st_mode
    (tmp_path / "link").symlink_to(saved.name)
    prior.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()


def test_save_names_the_path_that_was_given(prior, tmp_path):
    with pytest.raises(OSError, match=r"missing/prior'$"):
        prior.save(tmp_path / "missing" / "prior")
    with pytest.raises(TypeError, match="path is a int; expected the name of a file"):
        prior.save(3)


def test_unfitted_prior_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        GraphPriorScore().save(tmp_path / "prior.safetensors")


# Files that are not what they should be.


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, 0.3, 0.9, -1])
def test_truncated_file_is_refused(saved, keep):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(ValueError, match=r"prior\.safetensors.*is not a whole safetensors file"):
        GraphPriorScore.load(saved)


def test_a_flipped_bit_is_noticed_wherever_it_is(saved):
    content = saved.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    places = [*range(8), *rng.integers(8, begin, 150), *rng.integers(begin, len(content), 50), len(content) - 1]
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(changed)
        with pytest.raises(ValueError, match=r"prior\.safetensors"):
            GraphPriorScore.load(saved)


def test_changed_weights_are_refused_by_their_digest(saved):
    with safe_open(saved, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    name = next(iter(arrays))
    arrays[name] = arrays[name] + 1
    save_file(arrays, saved, metadata=metadata)
    with pytest.raises(ValueError, match=r"was changed after it was written.*SHA-256"):
        GraphPriorScore.load(saved)


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


def test_foreign_safetensors_file_is_refused(tmp_path):
    path = tmp_path / "foreign.safetensors"
    save_file({"weight": np.zeros(3)}, path)
    with pytest.raises(ValueError, match=r"foreign\.safetensors.*not a sklearn_graphid prior"):
        GraphPriorScore.load(path)


def test_training_checkpoint_is_not_a_prior(tmp_path):
    write_arrays(tmp_path / "c", "sklearn_graphid training checkpoint", {"a": np.zeros(2)}, {})
    with pytest.raises(ValueError, match="not a sklearn_graphid prior"):
        GraphPriorScore.load(tmp_path / "c")


def test_folder_is_refused_and_missing_file_is_reported_as_missing(tmp_path):
    with pytest.raises(ValueError, match="is a folder; expected a safetensors file"):
        GraphPriorScore.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.safetensors"):
        GraphPriorScore.load(tmp_path / "nowhere.safetensors")


class Malicious:
    """Unpickling this runs a command that creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_renamed_pickle_is_refused_and_does_not_run(tmp_path, protocol):
    path, target = tmp_path / "prior.safetensors", tmp_path / "was_here"
    path.write_bytes(pickle.dumps(Malicious(target), protocol=protocol))
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        GraphPriorScore.load(path)
    torch.save({"weights": Malicious(target)}, path)
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        GraphPriorScore.load(path)
    assert not target.exists()


def spoil(facts: dict[str, Any], *path: str, value: Any) -> None:
    for key in path[:-1]:
        facts = facts[key]
    facts[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("parameters", "architecture"), "transformer", "'parameters' have transformer"),
        (("parameters", "checkpoint_path"), "/etc/hosts", "'checkpoint_path' should be null"),
        (("parameters", "device"), "abacus", "device='abacus' is not a torch device"),
        (("parameters", "max_epochs"), -1, "'max_epochs' parameter"),
        (("parameters", "colour"), "red", "colour"),
        (("architecture",), "transformer", "transformer"),
        (("network_settings", "colour"), "red", "colour"),
        (("sigmas",), "many", "should be a list of 1 to 1000 annealing levels"),
        (("size_range",), [1], "should be two integers"),
        (("loss_history",), [], "the history should have the entries"),
    ],
)
def test_whole_file_that_makes_no_sense_is_refused(saved, path, value, complaint):
    arrays, facts = read_arrays(saved, PRIOR)
    spoil(facts, *path, value=value)
    write_arrays(saved, PRIOR, arrays, facts)
    with pytest.raises(ValueError, match=rf"does not describe a prior that this release knows.*{complaint}"):
        GraphPriorScore.load(saved)


def test_weights_of_another_shape_or_not_finite_are_refused(saved):
    arrays, facts = read_arrays(saved, PRIOR)
    name = max(arrays, key=lambda name: arrays[name].size)
    write_arrays(saved, PRIOR, arrays | {name: arrays[name][:-1]}, facts)
    with pytest.raises(ValueError, match="do not fit the architecture"):
        GraphPriorScore.load(saved)
    for odd in (np.nan, np.inf):
        write_arrays(saved, PRIOR, arrays | {name: np.full_like(arrays[name], odd)}, facts)
        with pytest.raises(ValueError, match=f"not finite numbers, in '{name}'"):
            GraphPriorScore.load(saved)


def test_file_of_an_earlier_release_loads(prior, saved, noisy):
    """It held the losses of typical graphs, which for published checkpoints were 0 and infinity."""
    arrays, facts = read_arrays(saved, PRIOR)
    write_arrays(saved, PRIOR, arrays, facts | {"typical_loss": [0.0, np.inf]})
    np.testing.assert_array_equal(GraphPriorScore.load(saved).denoise(noisy, 0.5), prior.denoise(noisy, 0.5))


def test_file_of_a_later_release_is_refused_by_its_version(saved):
    with safe_open(saved, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata() | {"version": "99"}
    save_file(arrays, saved, metadata=metadata)
    with pytest.raises(ValueError, match="format version '99'; this release reads up to 2"):
        GraphPriorScore.load(saved)


def test_file_may_be_moved_and_read_only(prior, saved, tmp_path, noisy):
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    shutil.move(saved, moved)
    moved.chmod(0o400)
    np.testing.assert_array_equal(GraphPriorScore.load(moved).denoise(noisy, 0.5), prior.denoise(noisy, 0.5))
