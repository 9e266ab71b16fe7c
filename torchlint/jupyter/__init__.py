"""Findings in notebooks: the language server for JupyterLab, and magics that need no server."""
