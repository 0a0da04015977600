"""What nobody told: how a file is written, what its columns mean, which labels are probably wrong."""
