FROM caddy:2.11-builder AS builder
WORKDIR /src
COPY . .
RUN xcaddy build v2.11.9 --with github.com/caddy-gw/gateway@v0.0.0=/src --output /usr/bin/caddy

FROM caddy:2.11
COPY --from=builder /usr/bin/caddy /usr/bin/caddy
