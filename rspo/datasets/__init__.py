"""Problems: generated, or read from the Hugging Face hub or a mirror of it, in one layout."""
