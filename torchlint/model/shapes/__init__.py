"""Shapes and element types of tensors, worked out when a rule asks for them."""
