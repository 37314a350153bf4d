"""How long a real card would take. Counted work in, predictions out; the same on every host."""

from openspyre.clock.bundles import time_bundle, time_directory
from openspyre.clock.predict import predict
from openspyre.clock.prediction import Band, KernelClass, Part, Prediction, Resource
from openspyre.clock.timing import ClassTime, TimedStep, Timing
from openspyre.clock.work import kernel_of

__all__ = [
    "Band",
    "ClassTime",
    "KernelClass",
    "Part",
    "Prediction",
    "Resource",
    "TimedStep",
    "Timing",
    "kernel_of",
    "predict",
    "time_bundle",
    "time_directory",
]
