"""The syntax of a file, asked before anything is interpreted: who mentions a name, and in which functions and loops."""

from torchlint.index.file_index import FileIndex

__all__ = ["FileIndex"]
