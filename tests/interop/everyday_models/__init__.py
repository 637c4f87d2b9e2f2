"""All models of this folder, by name."""
from . import layers_and_ops, pictures, sequences, structures  # noqa: F401: they add to MODELS
from .common import MODELS, seed  # noqa: F401
