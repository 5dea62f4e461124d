"""What a training has brought: analysis of metrics and checkpoints, the final result, reports and pictures."""
