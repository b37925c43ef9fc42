"""python -m autograd_c: the tour."""
import sys

from .tour import main

sys.exit(main())
