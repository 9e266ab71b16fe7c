"""Findings in notebooks: the language server for JupyterLab, and magics where no server is wanted."""
