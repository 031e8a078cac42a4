"""Questions to a schedule, one file each: is it right, what does it cost, what does it look like?"""
