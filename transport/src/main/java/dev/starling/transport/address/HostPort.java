package dev.starling.transport.address;

import dev.starling.transport.TransportException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Addresses such as {@code 10.0.0.1:4000}, {@code [fe80::1]:4000} or {@code name:4000}. */
public final class HostPort {
    private static final int MAX_LENGTH = 512;
    private static final Pattern NUMERIC = Pattern.compile(
            "(?:(\\d{1,3}(?:\\.\\d{1,3}){3})|\\[([0-9a-fA-F:.]+)]):\\d{1,5}");
    private static final Pattern PORT = Pattern.compile("[0-9]{1,5}");

    private HostPort() { }

    /** Returns the address of a port of a host, which may be an IPv6 address with or without brackets. */
    public static String format(String host, int port) {
        return (host.indexOf(':') < 0 || host.startsWith("[") ? host : "[" + host + "]") + ":" + port;
    }

    /** Returns the numeric address of a socket. */
    public static String format(InetSocketAddress socket) {
        return format(socket.getAddress().getHostAddress(), socket.getPort());
    }

    /** Returns whether an address is numeric, so that {@link #parse} looks no name up. */
    public static boolean isNumeric(String address) {
        Matcher matcher = NUMERIC.matcher(address);
        if (!matcher.matches()) {
            return false;
        }
        String v6 = matcher.group(2);
        try {
            // Not every match is an address: 999.1.1.1 and [beef.de] are names, which a resolver would be asked for.
            InetAddress.ofLiteral(v6 == null ? matcher.group(1) : v6);
            return v6 == null || v6.indexOf(':') >= 0;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /**
     * Parses an address, and looks its name up.
     *
     * @throws TransportException if it is not an address of this form, or the host is unknown
     */
    public static InetSocketAddress parse(String address) {
        int colon = address.lastIndexOf(':');
        String host = colon < 0 ? "" : address.substring(0, colon);
        if (host.startsWith("[") && host.endsWith("]")) {
            host = host.substring(1, host.length() - 1);
        } else if (host.indexOf(':') >= 0) {
            host = "";
        }
        String port = address.substring(colon + 1);
        if (host.isEmpty() || address.length() > MAX_LENGTH || !PORT.matcher(port).matches()
                || Integer.parseInt(port) < 1 || Integer.parseInt(port) > 65_535) {
            throw new TransportException(TransportException.Problem.ARGUMENT,
                    "'" + address + "' is not an address in a network", "give host:port");
        }
        return resolve(host, Integer.parseInt(port));
    }

    /**
     * Returns why no socket can listen at an address.
     *
     * @param cause names the problem: the address is in use, it cannot be assigned, or permission is denied
     * @param remedy for an address that is not of this machine
     */
    public static TransportException unbound(InetSocketAddress socket, Exception cause, String remedy) {
        String host = socket.getAddress().getHostAddress();
        String problem = String.valueOf(cause.getMessage());
        if (problem.contains("assign")) {
            return new TransportException(TransportException.Problem.ARGUMENT, host
                    + " is not an address of this machine", remedy, cause);
        }
        return problem.contains("denied")
                ? new TransportException(TransportException.Problem.UNAVAILABLE, "the system does not permit this "
                        + "process to listen on port " + socket.getPort() + " at " + host,
                        "choose a port from 1024, or 0 for any that is free", cause)
                : new TransportException(TransportException.Problem.IN_USE, "port " + socket.getPort()
                        + " is in use at " + host, "choose another port, or 0 for any that is free", cause);
    }

    /**
     * Looks a host up.
     *
     * @throws TransportException if it is unknown
     */
    public static InetSocketAddress resolve(String host, int port) {
        InetSocketAddress address = new InetSocketAddress(host, port);
        if (address.isUnresolved()) {
            throw new TransportException(TransportException.Problem.ARGUMENT,
                    "unknown host '" + host + "'", "give an IP address or a name that resolves");
        }
        return address;
    }
}
