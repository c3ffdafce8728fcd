package dev.starling.transport.tcp;

import static dev.starling.transport.TransportException.require;

import dev.starling.transport.address.HostPort;
import dev.starling.transport.option.WireOptions;
import dev.starling.transport.spi.WireConfig;
import java.net.InetSocketAddress;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * Settings of a wire, validated.
 *
 * @param host at which peers reach this wire
 * @param bind where it listens
 * @param sharedMemory whether peers on the same host may share memory; otherwise they count as on another host
 * @param sendBuffer of each connection in bytes, or 0 for the system's choice
 * @param receiveBuffer the same for what arrives
 * @param congestion the control of congestion: its name, {@link Congestion#SYSTEM} or {@link Congestion#AUTOMATIC}
 * @param connections of each link, once its peer is proven
 * @param timeToProveNs how long the peer of a connection may be unproven
 * @param livenessNs how long a peer may be silent
 */
record TcpSettings(String host, InetSocketAddress bind, boolean sharedMemory, int sendBuffer, int receiveBuffer,
        String congestion, int connections, long timeToProveNs, long livenessNs) {
    private static final int TIME_TO_PROVE_MS = 10_000;
    private static final int MAX_SOCKET_BUFFER = 1 << 30;
    private static final Set<String> NAMES = Set.of("bind", "sendBuffer", "receiveBuffer", "timeToProve",
            "congestion", "connections");

    static TcpSettings of(WireConfig config) {
        WireOptions options = WireOptions.of(config, "tcp", NAMES);
        String host = withoutBrackets(config.host());
        require(!HostPort.resolve(host, config.port()).getAddress().isAnyLocalAddress(), "peers cannot reach this "
                + "process at " + host, "name the address at which they do; the option bind may name another on which "
                + "to listen");
        return new TcpSettings(host, HostPort.resolve(withoutBrackets(config.options().getOrDefault("bind", host)),
                config.port()), config.sharedMemory(), options.size("sendBuffer", 0, MAX_SOCKET_BUFFER),
                options.size("receiveBuffer", 0, MAX_SOCKET_BUFFER),
                config.options().getOrDefault("congestion", Congestion.AUTOMATIC),
                positive(options, "connections", 1, Lane.MAX_CONNECTIONS),
                TimeUnit.MILLISECONDS.toNanos(positive(options, "timeToProve", TIME_TO_PROVE_MS, MAX_SOCKET_BUFFER)),
                config.livenessTimeout().toNanos());
    }

    private static int positive(WireOptions options, String name, int defaultValue, int max) {
        int number = options.size(name, defaultValue, max);
        require(number > 0, name + " >= 1 must hold, got " + number, "");
        return number;
    }

    private static String withoutBrackets(String host) {
        return host.startsWith("[") && host.endsWith("]") ? host.substring(1, host.length() - 1) : host;
    }

    /** Returns how long a proven peer may send nothing before its connection is closed: it is lost for long by then. */
    long silenceNs() {
        return 4 * livenessNs;
    }
}
