"""Networks by name: restored from arrays, or read from published checkpoints, of which nothing is run."""

from __future__ import annotations

import os
import pickle
import re
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sklearn_graphid.nn import EDPGNN, build_network, read_edpgnn_checkpoint, restore_network

SIZES: dict[str, Any] = {"edge_channels": (2, 3, 2), "node_features": 5, "gin_width": 4, "gin_depth": 2}
SETTINGS = {"ppgn": {"width": 3, "n_blocks": 2, "n_frequencies": 4}, "edp-gnn": {"sigmas": [0.5, 0.2, 0.1], **SIZES}}


def arrays_of(architecture: str) -> dict[str, np.ndarray]:
    network = build_network(architecture, SETTINGS[architecture], seed=0)
    return {name: value.numpy() for name, value in network.state_dict().items()}


# Settings and arrays.


@pytest.mark.parametrize(
    ("architecture", "changes", "complaint"),
    [
        *(
            ("ppgn", {"width": width}, "expected an integer from 1 to 100,000")
            for width in (0, 100_001, True, 1.5, "3")
        ),
        ("ppgn", {"width": 100_000}, "the shape of"),
        ("ppgn", {"n_blocks": 26}, "the settings ask for 26 layers, but there are only 25 arrays"),
        ("ppgn", {"n_blocks": 25}, "the shape of"),
        ("ppgn", {"directed": False}, "directed is False; expected true, or no such setting"),
        ("ppgn", {"gin_depth": 2}, "the architecture 'ppgn' has no setting 'gin_depth'"),
        ("edp-gnn", {"directed": True}, "the architecture 'edp-gnn' has no setting 'directed'"),
        ("edp-gnn", {"sigmas": []}, "sigmas should be a list of 1 to 1000 annealing levels"),
        ("edp-gnn", {"sigmas": [1.0] * 1_001}, "sigmas should be a list of 1 to 1000 annealing levels"),
        ("edp-gnn", {"sigmas": [0.5, 0.5, 0.1]}, "sigmas is not in descending order"),
        ("edp-gnn", {"sigmas": [0.5, 0.2, 0.9e-6]}, "sigmas holds what is no number between 1e-06 and 1e"),
        ("edp-gnn", {"sigmas": [0.5, float("nan"), 0.1]}, "sigmas holds what is no number"),
        ("edp-gnn", {"sigmas": [0.5, 0.1]}, "the shape of"),
        ("edp-gnn", {"edge_channels": [2]}, "edge_channels should be a list of two or more numbers"),
        ("edp-gnn", {"edge_channels": [2, 0, 2]}, "edge_channels holds 0"),
        ("edp-gnn", {"edge_channels": [3, 3, 2]}, "edge_channels is .* should start with 2"),
        ("edp-gnn", {"gin_depth": 48}, "the settings ask for 96 layers"),
    ],
)
def test_settings_that_do_not_fit_the_arrays_are_refused(architecture, changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        restore_network(architecture, SETTINGS[architecture] | changes, arrays_of(architecture))


def test_network_of_another_or_no_architecture_is_refused():
    with pytest.raises(ValueError, match="architecture='transformer'; expected one of ppgn, edp-gnn"):
        restore_network("transformer", {}, {})
    with pytest.raises(ValueError, match="sigmas are missing"):
        restore_network("edp-gnn", SIZES, arrays_of("edp-gnn"))


# Published checkpoints.


def published_name(name: str) -> str:
    """The name that the published state dict has for one of ours, written apart from the reader."""
    place = {"first": "0", "second": "1", "last": "2"}
    level_layer = re.fullmatch(r"(layers\.\d+\.pair_mlp|readout)\.(first|second|last)\.(\w+)", name)
    if level_layer:
        room, position, field = level_layer.groups()
        field = {
            "weight": "linears.{}.weight",
            "bias": "linears.{}.bias",
            "level_gain": "cond_layers.{}.gain",
            "level_bias": "cond_layers.{}.bias",
            "norm_gain": "batch_norms.{}.weight",
            "norm_bias": "batch_norms.{}.bias",
            "running_mean": "batch_norms.{}.running_mean",
            "running_variance": "batch_norms.{}.running_var",
        }[field].format(place[position])
        room = room.replace("readout", "final_read_score").replace("pair_mlp", "translate_mlp")
        return f"{room}.{field}".replace("layers.", "gnn_list.", int(room.startswith("layers")))
    name = name.replace("layers.", "gnn_list.").replace(".gin.", ".multi_channel_gnn_module.")
    name = re.sub(r"steps\.(\d+)\.first", r"layers.\1.linears.0", name)
    name = re.sub(r"steps\.(\d+)\.last", r"layers.\1.linears.1", name)
    name = re.sub(r"readouts\.(\d+)\.first", r"linear_prediction.\1.0", name)
    name = re.sub(r"readouts\.(\d+)\.last", r"linear_prediction.\1.2", name)
    return name.replace("epsilon", "eps")


def make_network() -> EDPGNN:
    """A network whose every parameter and buffer is its own random number."""
    network, generator = EDPGNN(3, **SIZES), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in network.state_dict().values():
            value.copy_(torch.rand(value.shape, generator=generator))
    return network


def make_checkpoint(network: EDPGNN | None = None) -> dict[str, Any]:
    """What the published training would have saved for a network of these sizes."""
    model = {}
    network = network or make_network()
    for name, value in network.state_dict().items():
        by_level = ".level_" in name
        model[published_name(name)] = value.flip(0).unsqueeze(1) if by_level else value
    model["gnn_list.0.translate_mlp.batch_norms.0.num_batches_tracked"] = torch.tensor(5)
    widths = {"channel_num_list": [3, 2], "feature_nums": [5, 5], "gnn_hidden_num_list": [4, 4]}
    return {
        "model": model,
        "sigma_list": [0.1, 0.2, 0.5],
        "config": {"model": {"models": {"model_1": widths}}, "dataset": {"in_feature": 1}},
        "test_loss": np.float64(3.0),
        "test_loss_item": np.arange(3.0),
    }


def test_checkpoint_is_read_with_levels_in_descending_order(tmp_path):
    network = make_network()
    torch.save(make_checkpoint(network), tmp_path / "saved.pth")
    settings, weights = read_edpgnn_checkpoint(tmp_path / "saved.pth")
    assert settings == SETTINGS["edp-gnn"]
    restored = restore_network("edp-gnn", settings, weights).network
    torch.testing.assert_close(dict(restored.state_dict()), dict(network.state_dict()), rtol=0, atol=0)


def without_sigmas(checkpoint: dict[str, Any]) -> None:
    del checkpoint["sigma_list"]


def with_descending_sigmas(checkpoint: dict[str, Any]) -> None:
    checkpoint["sigma_list"].reverse()


def with_numpy_sigmas(checkpoint: dict[str, Any]) -> None:
    checkpoint["sigma_list"] = np.array(checkpoint["sigma_list"])


def without_widths(checkpoint: dict[str, Any]) -> None:
    checkpoint["config"]["model"] = {}


def with_unequal_widths(checkpoint: dict[str, Any]) -> None:
    checkpoint["config"]["model"]["models"]["model_1"]["gnn_hidden_num_list"] = [4, 8]


def with_other_width(checkpoint: dict[str, Any]) -> None:
    checkpoint["config"]["model"]["models"]["model_1"]["feature_nums"] = [6, 6]


def with_other_depth(checkpoint: dict[str, Any]) -> None:
    checkpoint["config"]["model"]["models"]["model_1"]["gnn_hidden_num_list"] = [4]


def with_fewer_levels(checkpoint: dict[str, Any]) -> None:
    checkpoint["sigma_list"].pop()


def with_narrow_width(checkpoint: dict[str, Any]) -> None:
    checkpoint["config"]["model"]["models"]["model_1"]["gnn_hidden_num_list"] = [0, 0]


def with_more_layers_than_arrays(checkpoint: dict[str, Any]) -> None:
    checkpoint["config"]["model"]["models"]["model_1"]["gnn_hidden_num_list"] = [4] * 10**5


def with_widths_that_are_no_numbers(checkpoint: dict[str, Any]) -> None:
    nested: list[Any] = []
    for _ in range(60):  # little memory, but 2 to the power of 60 entries when it is printed
        nested = [nested, nested]
    checkpoint["config"]["model"]["models"]["model_1"]["channel_num_list"] = nested


def with_node_features(checkpoint: dict[str, Any]) -> None:
    checkpoint["config"]["dataset"]["in_feature"] = torch.ones(3)


def with_a_number_for_a_name(checkpoint: dict[str, Any]) -> None:
    checkpoint["model"] = {1: torch.zeros(2)}


def epsilon(value: Any) -> Any:
    """Put this in place of a tensor of two numbers."""
    return lambda checkpoint: checkpoint["model"].update({"gnn_list.0.multi_channel_gnn_module.eps": value})


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (without_sigmas, "no entry 'sigma_list'"),
        (with_descending_sigmas, "ascending"),
        (with_numpy_sigmas, "list of 1 to 1000 annealing levels"),
        (without_widths, "no entry 'config/model/models'"),
        (with_unequal_widths, "widths do not fit"),
        (with_other_width, "the shape of .* expected"),
        (with_other_depth, "the shape of .* expected"),
        (with_fewer_levels, "the shape of .* expected"),
        (with_narrow_width, "gin_width holds 0"),
        (with_more_layers_than_arrays, "ask for 200000 layers"),
        (with_widths_that_are_no_numbers, "lists of positive integers"),
        (with_node_features, "'config/dataset/in_feature' should be 1"),
        (with_a_number_for_a_name, "'model' should be a state dict"),
        (epsilon(np.zeros(2)), "not a dense tensor"),
        (epsilon(torch.zeros(2, dtype=torch.cfloat)), "not a dense tensor of real numbers"),
        (epsilon(torch.zeros(1).expand(10**10)), "the shape of .* expected"),  # repeats a number; no memory yet
        (epsilon(torch.tensor([1e300, 0.0]).double()), "holds what is no finite number"),
    ],
)
def test_spoilt_checkpoint_is_refused_by_path_and_reason(tmp_path, spoil, complaint):
    checkpoint = make_checkpoint()
    spoil(checkpoint)
    path = tmp_path / "spoilt.pth"
    torch.save(checkpoint, path)
    with pytest.raises(ValueError, match=complaint) as refusal:
        read_edpgnn_checkpoint(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"some text", pickle.dumps([1, 2], protocol=2), b"PK\x03\x04"])
def test_foreign_bytes_are_refused_by_path(tmp_path, content):
    path = tmp_path / "foreign.pth"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"foreign\.pth"):
        read_edpgnn_checkpoint(path)


def test_missing_file_is_reported_as_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_edpgnn_checkpoint(tmp_path / "nowhere.pth")


class Malicious:
    """Unpickling this runs a command that creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.target}",)


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
    assert all(settings == SETTINGS["edp-gnn"] for settings, _ in results)


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
    with path.open("wb") as file:
        file.truncate(32 * 2**20 + 1)
    with pytest.raises(ValueError, match="expected a checkpoint of at most 33,554,432"):
        read_edpgnn_checkpoint(path)
