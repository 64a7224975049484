"""What users see, in their own terms, and the findings that it can mean."""
