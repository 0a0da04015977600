"""What people call metrics and models, and labels as they read and write them."""
