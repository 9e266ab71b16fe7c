"""What a project says of itself: configuration, and which files are its own."""
