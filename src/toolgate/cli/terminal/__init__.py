"""What commands share: options, output, exit status."""
