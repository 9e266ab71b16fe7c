"""The language server: what an editor shows is linted while it is written. Needs the extra `lsp`."""
