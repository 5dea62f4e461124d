"""Small real implementations that tests share."""
