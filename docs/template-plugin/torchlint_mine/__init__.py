"""Rules of mine for torchlint, one module each."""
