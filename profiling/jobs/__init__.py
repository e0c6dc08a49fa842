"""Jobs: campaigns in the store's database, whose problems are leased to workers."""
