"""When in the week pages change: group profiles, schedules of single pages, regions and their time zones."""
