"""What PyTorch does, as data, and how people name its things."""
