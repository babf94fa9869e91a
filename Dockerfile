# placement-lint on the project that is mounted at /project:
#   docker build --tag placement-lint .
#   docker run --rm --volume "$PWD:/project:ro" placement-lint check --no-cache
FROM python:3.12-slim
COPY pyproject.toml README.md LICENSE /source/
COPY placement_lint /source/placement_lint
COPY rules /source/rules
RUN pip install --no-cache-dir /source && rm -r /source && useradd --create-home checker
USER checker
WORKDIR /project
ENTRYPOINT ["placement-lint"]
CMD ["check", "--no-cache"]
