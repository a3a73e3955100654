"""The public names: there, documented, and written as numpydoc wants."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import numpydoc.validate
import pytest
from numpydoc.docscrape import NumpyDocString

import sklearn_graphid
from sklearn_graphid.identifiers import BaseSystemIdentifier

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"

# Checks that do not fit, and why. All others hold for every public name.
IGNORED = {
    "ES01": "a summary says all there is to say of many names",
    "SA01": "See Also is for names that a reader might look for instead, and not every name has one",
    "SS05": "it takes plural nouns, as in 'Rows and columns', for verbs in the third person",
}
# The example is that of the class.
IGNORED_FOR_METHODS = {"EX01"}
# Small methods, such as `to_array`, are described by one line.
IGNORED_FOR_METHODS_OF_ONE_LINE = {"PR01", "RT01"}
# Named tuples have a comment at every field, and the function that returns one has the example.
IGNORED_FOR_RECORDS = {"EX01", "PR01"}
# What one needs for a prior or an identifier of one's own; of the latter, also what those that are there share.
WRITTEN_FOR_CONTRIBUTORS = {
    "identifiers.BaseSystemIdentifier",
    "identifiers.EdgeScoreIdentifier",
    "priors.Denoiser",
    "priors.GraphPrior",
}


def public_modules():
    names = [name for name in sklearn_graphid.__all__ if inspect.ismodule(getattr(sklearn_graphid, name))]
    return ["sklearn_graphid", *(f"sklearn_graphid.{name}" for name in names)]


def public_names():
    """Every public class and function, by its path within the package."""
    for path in public_modules():
        module = importlib.import_module(path)
        for name in module.__all__:
            if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name)):
                yield f"{path}.{name}".removeprefix("sklearn_graphid.")


def public_methods(cls):
    """Methods that the class defines or overrides itself, and those of the package's own base classes."""
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        is_method = inspect.isfunction(method) or isinstance(method, classmethod | staticmethod)
        function = getattr(method, "__func__", method)
        if not name.startswith("_") and is_method and function.__module__.startswith("sklearn_graphid"):
            yield name


def resolve(name):
    obj = sklearn_graphid
    for part in name.split("."):
        obj = getattr(obj, part)
    return obj


NAMES = sorted(public_names())
METHODS = sorted(
    f"{name}.{method}" for name in NAMES if inspect.isclass(resolve(name)) for method in public_methods(resolve(name))
)
IDENTIFIERS = [
    name for name in NAMES if inspect.isclass(resolve(name)) and issubclass(resolve(name), BaseSystemIdentifier)
]
MODULES = sorted(module.name for module in pkgutil.walk_packages(sklearn_graphid.__path__, "sklearn_graphid."))


# Names


@pytest.mark.parametrize("path", ["sklearn_graphid", *MODULES])
def test_every_module_says_what_is_public(path):
    module = importlib.import_module(path)
    assert inspect.getdoc(module), "no docstring"
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name), name
    if path in public_modules():
        assert not [name for name in module.__all__ if name.startswith("_")]


def test_star_import_brings_what_is_promised():
    names = {}
    exec("from sklearn_graphid import *", names)
    assert set(sklearn_graphid.__all__) <= set(names)


def test_the_reference_lists_every_public_name_and_no_other():
    listed = set(re.findall(r"^   ([\w.]+)$", REFERENCE.read_text(), flags=re.MULTILINE))
    assert listed == set(NAMES) | WRITTEN_FOR_CONTRIBUTORS


def test_public_objects_know_where_to_be_found():
    """Pickles, reprs and error messages name them by their module, which must be one of ours."""
    for name in NAMES:
        assert resolve(name).__module__.startswith("sklearn_graphid."), name


# Docstrings


def found_in(name):
    """What numpydoc finds wrong: pairs of a code and a text."""
    return [tuple(error) for error in numpydoc.validate.validate(f"sklearn_graphid.{name}")["errors"]]


def documented(cls, section):
    """Names in a section of a class's docstring, and in those of the bases that the docstring names."""
    entries = NumpyDocString(inspect.cleandoc(cls.__doc__))[section]
    names = {name for entry in entries for name in entry.name.split(", ")}
    bases = [base for base in cls.__mro__[1:] if f"`{base.__name__}`" in cls.__doc__]
    return names.union(*(documented(base, section) for base in bases))


def complaints(name, ignored):
    ignored = {*IGNORED, *ignored}
    obj = resolve(name)
    if inspect.isclass(obj) and set(inspect.signature(obj).parameters) <= documented(obj, "Parameters"):
        ignored.add("PR01")  # which numpydoc looks for in the class's own docstring only
    return [f"{code}: {text}" for code, text in found_in(name) if code not in ignored]


@pytest.mark.parametrize("name", NAMES)
def test_classes_and_functions_are_documented(name):
    is_record = hasattr(resolve(name), "_fields")
    assert complaints(name, IGNORED_FOR_RECORDS if is_record else ()) == []


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_documented(name):
    docstring = inspect.getdoc(resolve(name))
    assert docstring, "no docstring, not even an inherited one"
    ignored = set(IGNORED_FOR_METHODS)
    if not resolve(name).__doc__:
        ignored.add("GL08")  # it does what the base class says
    if inspect.signature(resolve(name)).return_annotation == "Self":
        ignored.add("RT01")  # the annotation says it
    if "\n" not in docstring:
        ignored |= IGNORED_FOR_METHODS_OF_ONE_LINE
    assert complaints(name, ignored) == []


def test_no_exception_is_left_over():
    assert set(IGNORED) <= {code for name in (*NAMES, *METHODS) for code, _ in found_in(name)}


def test_inherited_documentation_counts_where_the_docstring_names_the_base():
    class Base:
        """A base.

        Parameters
        ----------
        one, two : int
            Numbers.
        """

    class Silent(Base):
        """It says nothing of where it comes from."""

    class Telling(Base):
        """It has the parameters of `Base`.

        Parameters
        ----------
        three : int
            One more.
        """

    assert documented(Silent, "Parameters") == set()
    assert documented(Telling, "Parameters") == {"one", "two", "three"}


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_fitted_attributes_are_documented(name, ring_experiments, ring_known):
    identifier = resolve(name)()
    if "random_state" in identifier.get_params():
        identifier.set_params(random_state=0)
    fitted = identifier.fit(*ring_experiments, ring_known)
    attributes = {attribute for attribute in vars(fitted) if attribute.endswith("_") and attribute[0] != "_"}
    assert attributes <= documented(type(fitted), "Attributes")
