"""What Kueue counts, asked of the library that it uses."""
