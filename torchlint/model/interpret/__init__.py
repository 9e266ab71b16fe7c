"""The interpreter: three layers that run a program on abstract values. Start with `machine`."""
