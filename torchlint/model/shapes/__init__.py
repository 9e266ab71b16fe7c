"""Shapes and element types of tensors, computed on request of a rule."""
