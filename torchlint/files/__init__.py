"""Files as bytes and text: read, decoded, placed, and replaced whole."""
