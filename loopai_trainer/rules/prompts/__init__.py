"""What a good GRPO row is: a prompt of chat turns and a reference answer that the source itself states."""
