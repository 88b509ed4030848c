"""The kinds of objects that calls take as arrays, each over the memory of a numpy array."""
import array as array_module
import os

import numpy as np

torch = None
if os.environ.get("HMC_TEST_TORCH") != "0":  # its import takes longer than all tests
    try:
        import torch
    except ImportError:
        pass


class Interface:
    """An object with __array_interface__ only."""

    def __init__(self, values):
        self.values = values
        self.__array_interface__ = dict(values.__array_interface__)


class Exporter:
    """An object with DLPack only: the first version, which knows no arguments."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def from_bytes(make):
    def kind(values):
        data = bytearray(values.tobytes())
        return make(data, values), np.frombuffer(data, values.dtype).reshape(values.shape)
    return kind


def typed_view(data, values):
    return memoryview(data).cast(values.dtype.char)


def of_array_module(values):
    data = array_module.array(values.dtype.char, values.tolist())
    return data, np.frombuffer(data, values.dtype)


def of_torch(values):
    tensor = torch.tensor(values.tolist(), dtype={"q": torch.int64, "l": torch.int64, "d": torch.float64}[values.dtype.char])
    return tensor, lambda: np.array(tensor.tolist(), values.dtype)


def capsule(**arguments):
    def kind(values):
        values = values.copy()
        return values.__dlpack__(**arguments), values
    return kind


def of_numpy(values):
    values = values.copy()
    return values, values


def wrapped(wrapper):
    def kind(values):
        values = values.copy()
        return wrapper(values), values
    return kind


def all_kinds(typed):
    """Name -> function(values) -> (object, what holds its values: an array, or a function that returns one).

    typed: only kinds that state their element type, for reductions.
    """
    kinds = {"numpy": of_numpy, "memoryview": from_bytes(typed_view), "array": of_array_module,
             "array_interface": wrapped(Interface), "dlpack": wrapped(Exporter), "capsule": capsule()}
    try:
        np.zeros(1).__dlpack__(max_version=(1, 0))
        kinds["versioned_capsule"] = capsule(max_version=(1, 0))
    except TypeError:
        pass  # numpy before 2.1
    if torch is not None:
        kinds["torch"] = of_torch
    if not typed:
        kinds["bytearray"] = from_bytes(lambda data, values: data)
    return kinds


def values_of(holder):
    return holder() if callable(holder) else holder
