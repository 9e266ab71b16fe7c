"""The interpreter: three layers of parts that run a program on abstract values. Begin with `machine`."""
