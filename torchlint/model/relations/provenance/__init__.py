"""Provenance: who makes modules and parameters, which names are one object, and what takes whose place."""
