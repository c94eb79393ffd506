"""Semaphores: numbers of permits that tasks, processes and hosts take and give back."""
