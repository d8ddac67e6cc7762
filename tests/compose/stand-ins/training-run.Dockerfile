# In place of an image with OpenRLHF's environment: the trainer's image, OpenRLHF's own Python files (the build context `openrlhf`) without what
# they train with, this project's sources at /app, and openrlhf_parser.py, which runs OpenRLHF's own main up to its call of `train`.
FROM parallelsearch/trainer
COPY --from=openrlhf . /opt/openrlhf
COPY packages/ /app/packages/
COPY services/trainer/ /app/services/trainer/
COPY --from=support openrlhf_parser.py /opt/stand-in/
COPY --from=stand-ins train_ppo_ray.py /opt/stand-in/openrlhf/cli/
USER 0:0
RUN touch /opt/stand-in/openrlhf/__init__.py /opt/stand-in/openrlhf/cli/__init__.py \
 && echo /opt/stand-in > /opt/venv/lib/python3.11/site-packages/stand-in.pth
USER 10001:10001
