"""What a posterior stores of its model among its attributes; :mod:`bayesdrop.description` says how."""

from ...description import attributes, components, describe, read_classes, rebuild, stored_classes, stored_model

__all__ = ["attributes", "components", "describe", "read_classes", "rebuild", "stored_classes", "stored_model"]
