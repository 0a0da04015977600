"""Pretrained checkpoints, of a hub or a folder."""
