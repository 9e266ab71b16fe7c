"""The built-in rules, one module each; loaded through the `torchlint.rules` entry point."""
