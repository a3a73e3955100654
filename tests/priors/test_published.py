"""Published checkpoints of EDP-GNN, of which nothing is run."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_priors import Malicious

from sklearn_graphid import GraphPriorScore
from sklearn_graphid.nn import build_network, restore_network
from sklearn_graphid.priors._files import read_edpgnn_checkpoint

SETTINGS: dict[str, Any] = {
    "sigmas": [0.5, 0.2, 0.1],
    "edge_channels": [2, 3, 2],
    "node_features": 5,
    "gin_width": 4,
    "gin_depth": 2,
}


def make_network() -> torch.nn.Module:
    """A network whose every parameter and buffer is its own random number."""
    network, generator = build_network("edp-gnn", SETTINGS, 0), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in network.state_dict().values():
            value.copy_(torch.rand(value.shape, generator=generator))
    return network


def make_checkpoint(network: torch.nn.Module | None = None) -> dict[str, Any]:
    """Everything that the published training would have saved for a network of these sizes."""
    weights = (network or make_network()).state_dict()
    model = {name: value.flip(0).unsqueeze(1) if ".cond_" in name else value for name, value in weights.items()}
    model["gnn_list.0.translate_mlp.batch_norms.0.num_batches_tracked"] = torch.tensor(5)
    widths = {"channel_num_list": [3, 2], "feature_nums": [5, 5], "gnn_hidden_num_list": [4, 4]}
    return {
        "model": model,
        "sigma_list": [0.1, 0.2, 0.5],
        "config": {"model": {"models": {"model_1": widths}}, "dataset": {"in_feature": 1}},
        "test_loss": np.float64(3.0),
        "test_loss_item": np.arange(3.0),
    }


def test_weights_have_the_published_names():
    names = set(make_network().state_dict())
    for mlp in ("gnn_list.1.translate_mlp", "final_read_score"):
        assert {f"{mlp}.linears.{i}.{part}" for i in range(3) for part in ("weight", "bias")} <= names
        assert {f"{mlp}.cond_layers.{i}.{part}" for i in range(2) for part in ("gain", "bias")} <= names
    parts = ("weight", "bias", "running_mean", "running_var")
    assert {f"gnn_list.0.translate_mlp.batch_norms.{i}.{part}" for i in range(2) for part in parts} <= names
    gin, parts = "gnn_list.0.multi_channel_gnn_module", ("weight", "bias")
    assert {f"{gin}.layers.{i}.linears.{k}.{part}" for i in range(2) for k in range(2) for part in parts} <= names
    assert {f"{gin}.linear_prediction.{i}.{k}.{part}" for i in range(3) for k in (0, 2) for part in parts} <= names


def test_checkpoint_is_read_with_levels_in_descending_order(tmp_path):
    network = make_network()
    torch.save(make_checkpoint(network), tmp_path / "saved.pth")
    settings, weights = read_edpgnn_checkpoint(tmp_path / "saved.pth")
    assert settings == SETTINGS
    restored = restore_network("edp-gnn", settings, weights)
    torch.testing.assert_close(dict(restored.state_dict()), dict(network.state_dict()), rtol=0, atol=0)


def changed(*place: str, to: Any) -> Callable[[dict[str, Any]], None]:
    """Something that puts another value at this place of a checkpoint."""

    def spoil(checkpoint: dict[str, Any]) -> None:
        for name in place[:-1]:
            checkpoint = checkpoint[name]
        checkpoint[place[-1]] = to

    return spoil


def nested(depth: int) -> list[Any]:
    """Little memory, but 2 to the power of the depth entries when it is printed."""
    return [] if not depth else [nested(depth - 1)] * 2


EPSILON = ("model", "gnn_list.0.multi_channel_gnn_module.eps")  # a tensor of two numbers
WIDTHS = ("config", "model", "models", "model_1")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda checkpoint: checkpoint.pop("sigma_list"), "there is no 'sigma_list'"),
        (changed("sigma_list", to=[0.5, 0.2, 0.1]), "from the last to the first, is not in descending order"),
        (changed("sigma_list", to=np.array([0.1, 0.2, 0.5])), "not subscriptable"),
        (changed("sigma_list", to=[0.1, 0.2]), "the shape of .* expected"),
        (changed("config", "model", to={}), "there is no 'models'"),
        (changed("config", "dataset", "in_feature", to=torch.ones(3)), "'config/dataset/in_feature' should be 1"),
        (changed(*WIDTHS, "feature_nums", to=[6, 6]), "the shape of .* expected"),
        (changed(*WIDTHS, "gnn_hidden_num_list", to=[4]), "the shape of .* expected"),
        (changed(*WIDTHS, "gnn_hidden_num_list", to=[4, 8]), "widths do not fit"),
        (changed(*WIDTHS, "gnn_hidden_num_list", to=[4] * 10**5), "more layers than there are arrays"),
        (changed(*WIDTHS, "channel_num_list", to=nested(60)), "'edp-gnn' has these settings"),
        (changed("model", to={1: torch.zeros(2)}), "'int' object has no attribute"),
        (changed(*EPSILON, to=np.zeros(2)), "not a dense tensor"),
        (changed(*EPSILON, to=torch.zeros(2, dtype=torch.cfloat)), "not a dense tensor of real numbers"),
        (changed(*EPSILON, to=torch.zeros(1).expand(10**10)), "the shape of .* expected"),  # repeats one number
        (changed(*EPSILON, to=torch.tensor([1e300, 0.0]).double()), "holds what is no finite number"),
    ],
)
def test_spoilt_checkpoint_is_refused_by_path_and_reason(tmp_path, spoil, complaint):
    checkpoint = make_checkpoint()
    spoil(checkpoint)
    path = tmp_path / "spoilt.pth"
    torch.save(checkpoint, path)
    with pytest.raises(ValueError, match=rf"spoilt\.pth' does not describe a published EDP-GNN .*{complaint}"):
        read_edpgnn_checkpoint(path)


@pytest.mark.parametrize("content", [b"", b"some text", pickle.dumps([1, 2], protocol=2), b"PK\x03\x04"])
def test_foreign_bytes_are_refused_by_path(tmp_path, content):
    path = tmp_path / "foreign.pth"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"foreign\.pth"):
        read_edpgnn_checkpoint(path)


@pytest.mark.parametrize("bare_pickle", [False, True])
def test_malicious_checkpoint_is_refused_and_does_not_run(tmp_path, bare_pickle):
    path, target = tmp_path / "malicious.pth", tmp_path / "was_here"
    checkpoint = make_checkpoint() | {"test_loss": Malicious(target)}
    if bare_pickle:
        path.write_bytes(pickle.dumps(checkpoint["test_loss"], protocol=2))
    else:
        torch.save(checkpoint, path)
    with pytest.raises(ValueError, match=r"malicious\.pth"):
        read_edpgnn_checkpoint(path)
    assert not target.exists()


@pytest.mark.parametrize("valid", [False, True])
def test_reading_neither_uses_nor_changes_what_the_caller_allows_torch_to_load(tmp_path, valid):
    torch.save(make_checkpoint() if valid else {"model": Path()}, tmp_path / "saved.pth")
    with torch.serialization.safe_globals([np.dtype, np.ndarray, type(Path())]):
        before = set(torch.serialization.get_safe_globals())
        with nullcontext() if valid else pytest.raises(ValueError, match=r"asks for pathlib.*allow-list"):
            read_edpgnn_checkpoint(tmp_path / "saved.pth")
        assert set(torch.serialization.get_safe_globals()) == before


def test_several_threads_may_read_at_once(tmp_path):
    """The list of what torch may build belongs to the process."""
    torch.save(make_checkpoint(), tmp_path / "saved.pth")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(read_edpgnn_checkpoint, [tmp_path / "saved.pth"] * 12))
    assert all(settings == SETTINGS for settings, _ in results)


def test_entries_of_a_zip_that_are_larger_than_the_file_are_refused_unread(tmp_path):
    path = tmp_path / "huge.pth"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(2**20))
    with pytest.raises(ValueError, match=r"huge\.pth.*entries are larger than the file"):
        read_edpgnn_checkpoint(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", bytes(2**20 + 1))
    with pytest.raises(ValueError, match="its pickle is larger than 1,048,576 bytes"):
        read_edpgnn_checkpoint(path)


def test_published_weights_that_overflow_are_refused(tmp_path):
    checkpoint = make_checkpoint()
    checkpoint["model"] = {name: value + 1e37 for name, value in checkpoint["model"].items()}
    torch.save(checkpoint, tmp_path / "overflow.pth")
    with pytest.raises(ValueError, match=r"overflow\.pth.*no finite answer"):
        GraphPriorScore.from_edpgnn_checkpoint(tmp_path / "overflow.pth")
