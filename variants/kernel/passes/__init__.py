"""Rewrites of kernels, facts about them, and the loops that softmaxes are printed as."""
