# Reads logs, dumps and cases:   docker run --rm -v "$PWD:/work" ddpdoctor diagnose slurm-4711.out
# With PyTorch, for the commands that run ranks:   docker build --build-arg EXTRAS='[torch]' -t ddpdoctor .
FROM python:3.12-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
ARG EXTRAS=""
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)$EXTRAS" && rm -r /wheels \
    && useradd --create-home reader
USER reader
WORKDIR /work
ENTRYPOINT ["ddpdoctor"]
CMD ["--help"]
