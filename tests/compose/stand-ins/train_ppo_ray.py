"""`python3 -m openrlhf.cli.train_ppo_ray` in the stand-in image: OpenRLHF's own main of that name, up to its call of `train`."""

import sys

from openrlhf_parser import main

if __name__ == "__main__":
    del sys.modules["openrlhf"], sys.modules["openrlhf.cli"]
    main("/opt/openrlhf", "openrlhf.cli.train_ppo_ray", *sys.argv[1:])
