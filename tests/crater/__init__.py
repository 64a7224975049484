"""`ddpdoctor lint` over public repositories at pinned commits, for people to judge by hand."""
