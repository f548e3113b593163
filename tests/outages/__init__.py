"""What happens when the machine, the disk or the database fails under load."""
