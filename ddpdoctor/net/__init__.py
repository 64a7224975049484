"""How the nodes of `ddpdoctor net` meet, take turns and measure each other."""
