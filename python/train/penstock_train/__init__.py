"""The program `train` of Penstock. It has no Python interface; `train --help` and `python -m penstock_train --help` list its flags."""
