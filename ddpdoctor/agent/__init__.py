"""The little that lives inside a user's ranks. Nothing here may ever raise into their job."""
