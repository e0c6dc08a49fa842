"""Rewrites of kernels: what is fused, and the forms that backends print a softmax in."""
