# rlher on CPUs, without root; usage: docs/guide/install.md. All steps are in the script, which the slow tests run.
# Python 3.11 and constraints.txt are what the tests run with.
FROM python:3.11-slim

ENV PIP_NO_CACHE_DIR=1 PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN --mount=type=bind,target=/src,rw /src/scripts/docker_install.sh /opt/rlher

# Any user may run it: programs that ask for a name or a home get these.
ENV PATH=/opt/rlher/bin:$PATH HOME=/tmp USER=rlher
USER 1000:1000
WORKDIR /tmp
ENTRYPOINT ["rlher"]
CMD ["--help"]
