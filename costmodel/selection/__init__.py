"""Which variant runs: the selector, why it chose, and the champion that it follows."""
