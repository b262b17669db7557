"""Episodes as video: recording, tiling, captions, writing the file."""
