"""The symptoms, one module per heading of the index page."""
