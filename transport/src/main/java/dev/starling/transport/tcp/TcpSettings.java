package dev.starling.transport.tcp;

import dev.starling.transport.TransportException;
import dev.starling.transport.address.HostPort;
import dev.starling.transport.spi.WireConfig;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.agrona.SystemUtil;

/**
 * Settings of a wire, validated.
 *
 * @param host at which peers reach this wire
 * @param bind where it listens
 * @param sharedMemory whether peers on the same host may share memory; otherwise they count as on another host
 * @param sendBuffer of each connection in bytes, or 0 for the system's choice
 * @param receiveBuffer the same for what arrives
 * @param timeToProveNs how long the peer of a connection may be unproven
 * @param livenessNs how long a peer may be silent
 */
record TcpSettings(String host, InetSocketAddress bind, boolean sharedMemory, int sendBuffer, int receiveBuffer,
        long timeToProveNs, long livenessNs) {
    private static final String TIME_TO_PROVE_MS = "10000";
    private static final int MAX_SOCKET_BUFFER = 1 << 30;
    private static final Set<String> NAMES = Set.of("bind", "sendBuffer", "receiveBuffer", "timeToProve");

    static TcpSettings of(WireConfig config) {
        Map<String, String> options = config.options();
        for (String name : options.keySet()) {
            require(NAMES.contains(name), "the tcp transport has no option '" + name + "'", "its options are "
                    + String.join(", ", new TreeSet<>(NAMES)));
        }
        String host = withoutBrackets(config.host());
        require(!HostPort.resolve(host, config.port()).getAddress().isAnyLocalAddress(), "peers cannot reach this "
                + "process at " + host, "name the address at which they do; the option bind may name another on which "
                + "to listen");
        return new TcpSettings(host, HostPort.resolve(withoutBrackets(options.getOrDefault("bind", host)),
                config.port()), config.sharedMemory(), size(options, "sendBuffer", "0"),
                size(options, "receiveBuffer", "0"),
                TimeUnit.MILLISECONDS.toNanos(size(options, "timeToProve", TIME_TO_PROVE_MS)),
                config.livenessTimeout().toNanos());
    }

    private static String withoutBrackets(String host) {
        return host.startsWith("[") && host.endsWith("]") ? host.substring(1, host.length() - 1) : host;
    }

    private static int size(Map<String, String> options, String name, String byDefault) {
        String value = options.getOrDefault(name, byDefault);
        long size = -1;
        try {
            size = SystemUtil.parseSize(name, value);
        } catch (NumberFormatException e) {
            require(false, name + " must be a number, such as 65536 or 4m, got " + value, "");
        }
        require(size >= 0 && size <= MAX_SOCKET_BUFFER, "0 <= " + name + " <= " + MAX_SOCKET_BUFFER
                + " must hold, got " + value, "");
        return (int) size;
    }

    /** Returns how long a proven peer may send nothing before its connection is closed: it is lost for long by then. */
    long silenceNs() {
        return 4 * livenessNs;
    }

    private static void require(boolean holds, String relation, String remedy) {
        if (!holds) {
            throw new TransportException(TransportException.Problem.ARGUMENT, relation, remedy);
        }
    }
}
