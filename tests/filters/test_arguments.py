"""Filters that cannot work say so before any work is done, and name the argument."""

from __future__ import annotations

import traceback
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import torch

from sklearn_graphid import AdamSystemIdentifier, LikelihoodLangevinIdentifier, RidgeSystemIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import (
    ARMAFilter,
    CallableFilter,
    HeatDiffusionFilter,
    PolynomialFilter,
    resolve_filter,
)

NO_NUMBERS = ["a", np.inf, np.nan, True, None, 1j, np.ones(2), 10**400]
RING = nx.to_numpy_array(nx.cycle_graph(6))


def identity(adjacency, theta):
    return theta[..., :1, None] * torch.eye(adjacency.shape[-1], dtype=adjacency.dtype)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=str)
@pytest.mark.parametrize(
    ("filter", "name"),
    [
        (PolynomialFilter, "initial_scale"),
        (ARMAFilter, "initial_scale"),
        (HeatDiffusionFilter, "initial_low"),
        (HeatDiffusionFilter, "initial_high"),
        (HeatDiffusionFilter, "theta_min"),
        (HeatDiffusionFilter, "theta_max"),
    ],
)
def test_numbers_are_refused_by_name(filter, name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{filter.__name__} got {name}=(.|\n)*; expected a "):
        resolve_filter(filter(**{name: value}))


@pytest.mark.parametrize("value", [*NO_NUMBERS[:-1], 2.5, 2.0, -1], ids=str)
@pytest.mark.parametrize(
    ("filter", "name"), [(PolynomialFilter, "order"), (ARMAFilter, "ar_order"), (ARMAFilter, "ma_order")]
)
def test_orders_are_refused_by_name(filter, name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{filter.__name__} got {name}=(.|\n)*; expected an integer of"):
        resolve_filter(filter(**{name: value}))


@pytest.mark.parametrize("laplacian", [None, 3, [], np.ones(2)])
def test_laplacians_are_refused_by_name(laplacian):
    with pytest.raises(ValueError, match=r"HeatDiffusionFilter got laplacian=.*; expected one of combinatorial"):
        resolve_filter(HeatDiffusionFilter(laplacian))


@pytest.mark.parametrize("names", [None, 3, [1], ["a", None], "theta", (), {"a", "b"}, b"ab", np.array("a")])
def test_names_are_refused(names):
    with pytest.raises(ValueError, match=r"^CallableFilter got names=.*; expected a list or tuple of str"):
        resolve_filter(CallableFilter(identity, names=names))


@pytest.mark.parametrize("argument", ["limits", "initial"])
@pytest.mark.parametrize(
    "ranges",
    [3, [3], "ab", [("a", 1)], [(None, 1)], [(0, 1j)], [(True, 1)], [(0, 1, 2)], [(0,)], [(np.nan, 1)], [(0, np.nan)]],
    ids=str,
)
def test_ranges_are_refused_by_name(argument, ranges):
    with pytest.raises(ValueError, match=rf"^CallableFilter got {argument}.*; expected (two numbers|low <= high)"):
        resolve_filter(CallableFilter(identity, **{argument: ranges}))


def test_only_a_start_must_be_finite():
    assert resolve_filter(CallableFilter(identity, limits=[(0, np.inf)])).bounds() == [(0.0, np.inf)]
    with pytest.raises(ValueError, match=r"CallableFilter got initial \(0, inf\); expected finite numbers"):
        resolve_filter(CallableFilter(identity, initial=[(0, np.inf)]))


@pytest.mark.parametrize("batched", [1, "yes", None])
def test_batched_is_true_or_false(batched):
    with pytest.raises(TypeError, match=r"CallableFilter got batched=.*; expected True or False"):
        resolve_filter(CallableFilter(identity, batched=batched))


@pytest.mark.parametrize(
    "filter",
    [
        PolynomialFilter(np.int64(1), initial_scale=np.float32(0.5)),
        ARMAFilter(initial_scale=Fraction(1, 2)),
        HeatDiffusionFilter(initial_low=Fraction(1, 3), initial_high=np.float64(0.7), theta_min=0, theta_max=1),
        CallableFilter(
            identity, names=["a"], limits=np.array([[0.0, 1.0]]), initial=((np.float32(0), Fraction(1, 2)),)
        ),
    ],
)
def test_numbers_of_any_sort_are_fine(filter):
    _, Y, theta = make_system(RING, filter, return_theta=True, random_state=0)
    assert np.isfinite(Y).all()
    low, high = np.array(filter.initial_range()).T
    assert ((low <= theta) & (theta <= high)).all()


# What the user's function returns


def as_list(adjacency, theta):
    return [1.0, 2.0]


def nothing(adjacency, theta):
    return None


def integers(adjacency, theta):
    return torch.ones_like(adjacency, dtype=torch.int64)


def half_precision(adjacency, theta):
    return adjacency.to(torch.float16)


def elsewhere(adjacency, theta):
    return torch.ones_like(adjacency, device="meta")


def one_row(adjacency, theta):
    return adjacency[..., 0]


RETURNED = [
    (as_list, "returned a list; expected a torch tensor"),
    (nothing, "returned a NoneType; expected a torch tensor"),
    (integers, "returned a tensor of dtype torch.int64; expected torch.float64"),
    (half_precision, "returned a tensor of dtype torch.float16; expected torch.float64"),
    (elsewhere, "returned a tensor of device meta; expected cpu"),
    (one_row, r"returned shape \(1, 6\) for adjacency matrices of shape \(1, 6, 6\)"),
]


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("function", "words"), RETURNED)
def test_what_the_function_returns_is_refused(function, words, batched):
    with pytest.raises((TypeError, ValueError), match=f"the function of CallableFilter {words}"):
        make_system(RING, CallableFilter(function, batched=batched), [0.1], random_state=0)


IDENTIFIERS = [
    RidgeSystemIdentifier(),
    AdamSystemIdentifier(max_iter=2, random_state=0),
]


def undefined(adjacency, theta):
    return adjacency * torch.nan


@pytest.mark.parametrize("identifier", IDENTIFIERS, ids=lambda identifier: type(identifier).__name__)
def test_function_that_is_nan_everywhere_is_blamed(identifier, ring_experiments):
    with pytest.raises(FloatingPointError, match=r"infinite or nan.* check the filter"):
        identifier.set_params(filter=CallableFilter(undefined)).fit(*ring_experiments)


LANGEVIN = LikelihoodLangevinIdentifier(n_chains=1, n_steps=1, random_state=0)


def helper_of_the_user(adjacency):
    raise KeyError("a mistake of her own")


def faulty(adjacency, theta):
    return helper_of_the_user(adjacency)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("identifier", [*IDENTIFIERS, LANGEVIN], ids=lambda identifier: type(identifier).__name__)
def test_error_in_the_function_keeps_its_traceback(identifier, batched, ring_experiments):
    with pytest.raises(KeyError, match="a mistake of her own") as caught:
        identifier.set_params(filter=CallableFilter(faulty, batched=batched)).fit(*ring_experiments)
    shown = "".join(traceback.format_exception(caught.value))
    assert [frame.name for frame in traceback.extract_tb(caught.tb)][-2:] == ["faulty", "helper_of_the_user"]
    assert "return helper_of_the_user(adjacency)" in shown
    assert "raised by the function of CallableFilter, 'faulty'" in shown


def branching(adjacency, theta):
    return adjacency if theta[..., 0] > 0 else -adjacency


def test_what_vmap_cannot_do_has_a_way_out():
    with pytest.raises(RuntimeError, match="data-dependent control flow") as caught:
        make_system(RING, CallableFilter(branching), [0.1], random_state=0)
    assert "set batched=True" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("batched", [True, False])
def test_a_function_is_not_called_without_a_graph(batched):
    def refuse(adjacency, theta):
        raise AssertionError("called")

    outputs = CallableFilter(refuse, batched=batched).apply(torch.zeros(0, 3, 3), torch.zeros(0, 1), torch.zeros(2, 3))
    assert outputs.shape == (0, 2, 3)


@pytest.mark.parametrize("filter", [HeatDiffusionFilter(), ARMAFilter(1, 0), ARMAFilter(2, 1)], ids=repr)
def test_powers_of_the_unit_leave_the_outputs_as_they_are(filter):
    rng = torch.Generator().manual_seed(0)
    weights, signals = torch.rand(3, 5, 5, generator=rng).double(), torch.rand(4, 5, generator=rng).double()
    weights = (weights + weights.mT) * (1 - torch.eye(5))
    theta = 0.1 + 0.1 * torch.rand(3, filter.n_parameters(), generator=rng).double()
    powers = torch.tensor(filter.powers_of_unit()).double()
    rescaled = filter.apply(1.7 * weights, theta * 1.7**powers, signals)
    torch.testing.assert_close(rescaled, filter.apply(weights, theta, signals))
