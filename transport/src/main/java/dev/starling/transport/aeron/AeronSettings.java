package dev.starling.transport.aeron;

import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.StandardSocketOptions;
import java.nio.channels.DatagramChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.agrona.SystemUtil;

/**
 * Sizes and choices of a wire, checked. Sizes are in bytes.
 *
 * @param base directory below which every wire keeps its files in a directory of its own
 * @param driver directory of a media driver that runs elsewhere, or {@code null} for one of the wire's own
 * @param threads of the wire's own driver; with 0 the wire's {@code poll} drives it
 * @param mtu longest datagram without its headers
 * @param term of a link over UDP, of which each end keeps three
 * @param ipcTerm of a link within the host, of which there are three
 * @param window of bytes under way to a receiver
 * @param socketBuffer of each socket
 * @param ipc whether links to wires of the same host leave the network aside
 * @param linger for how long at most to wait at the end until peers have got what was sent
 * @param livenessNs for how long a link that hears nothing stays
 */
record AeronSettings(Path base, Path driver, int threads, int mtu, int term, int ipcTerm, int window, int socketBuffer,
        boolean ipc, Duration linger, long livenessNs) {
    /** Bytes that Aeron puts before each fragment. */
    static final int HEADER = 32;
    /** All frames begin at a multiple of this. */
    static final int ALIGNMENT = 32;
    static final int MAX_MTU = 65_504;
    static final int TERMS = 3;

    private static final int BEST_SOCKET_BUFFER = 4 << 20;
    private static final int DEFAULT_TERM = 2 << 20;
    private static final int MIN_TERM = 256 << 10;
    private static final int MAX_TERM = 1 << 30;
    private static final int MAX_MESSAGE = 16 << 20;
    private static final int BULK_MESSAGE = 32 << 10;
    private static final int ETHERNET_MTU = 1500;
    private static final int ETHERNET_PAYLOAD = 1408;
    private static final int IP_AND_UDP_HEADERS = 48;
    private static final long MIN_LIVENESS_NS = TimeUnit.SECONDS.toNanos(20);
    private static final Set<String> NAMES = Set.of("driver", "threads", "mtu", "term", "ipcTerm", "window",
            "socketBuffer", "ipc", "linger");

    static AeronSettings of(TransportConfig config) {
        Map<String, String> options = config.options();
        for (String name : options.keySet()) {
            require(NAMES.contains(name), "the aeron transport has no option " + name, "it has "
                    + String.join(", ", new TreeSet<>(NAMES)));
        }
        int widest = widestSocketBuffer();
        int mtu = size(options, "mtu", Math.min(networkMtu(config.host()), widest / ALIGNMENT * ALIGNMENT));
        int term = size(options, "term", DEFAULT_TERM);
        int socketBuffer = size(options, "socketBuffer", widest);
        Path driver = options.containsKey("driver") ? Path.of(options.get("driver")).toAbsolutePath() : null;
        AeronSettings settings = new AeronSettings(
                config.directory() == null ? WireDirectory.defaultBase() : config.directory().toAbsolutePath(), driver,
                size(options, "threads", 0), mtu, term, size(options, "ipcTerm", DEFAULT_TERM),
                size(options, "window", Math.min(socketBuffer, term / 2)), socketBuffer,
                flag(options, "ipc", config.sharedMemory()),
                Duration.ofMillis(size(options, "linger", 500)),
                Math.max(MIN_LIVENESS_NS, 2 * config.silence().toNanos()));
        settings.check(widest);
        return settings;
    }

    private void check(int widest) {
        require(threads <= 3, "0 <= threads <= 3 must hold, got " + threads, "0 leaves the driver to the caller");
        require(threads == 0 || driver == null, "threads=" + threads + " are those of the wire's own driver, but the "
                + "option driver names another", "leave one of the two away");
        require(mtu > HEADER && mtu <= MAX_MTU, HEADER + " < mtu <= " + MAX_MTU + " must hold, got mtu=" + mtu,
                "a datagram holds no more");
        require(mtu % ALIGNMENT == 0, "mtu must be a multiple of " + ALIGNMENT + ", got mtu=" + mtu,
                "for example " + Math.max(2 * ALIGNMENT, mtu / ALIGNMENT * ALIGNMENT));
        checkTerm("term", term);
        checkTerm("ipcTerm", ipcTerm);
        require(socketBuffer <= widest, "socketBuffer <= " + widest + " must hold here, got socketBuffer="
                + socketBuffer, "allow more with: sysctl -w net.core.rmem_max=" + socketBuffer
                + " net.core.wmem_max=" + socketBuffer);
        require(mtu <= socketBuffer, "mtu <= socketBuffer must hold, got mtu=" + mtu + ", socketBuffer=" + socketBuffer,
                "a datagram must fit");
        require(mtu <= window && window <= term / 2, "mtu <= window <= term/2 must hold, got mtu=" + mtu + ", window="
                + window + ", term=" + term, "choose another window or a longer term");
        require(window <= socketBuffer, "window <= socketBuffer must hold, got window=" + window + ", socketBuffer="
                + socketBuffer, "what is under way must fit");
    }

    private static void checkTerm(String name, int length) {
        require(Integer.bitCount(length) == 1 && length >= MIN_TERM && length <= MAX_TERM, name
                + " must be a power of two from " + MIN_TERM + " to " + MAX_TERM + ", got " + name + "="
                + length, "for example 4m");
    }

    /** Returns whether the sockets here hold less than what suits a fast network. */
    boolean isSocketBufferSmall() {
        return socketBuffer < BEST_SOCKET_BUFFER / 4;
    }

    int maxMessageLength() {
        return Math.min(MAX_MESSAGE, Math.min(term, ipcTerm) / 8);
    }

    /** Returns what fills one datagram, or some where they are small. */
    int bulkMessageLength() {
        int payload = mtu - HEADER;
        return Math.min(maxMessageLength(), Math.max(1, BULK_MESSAGE / payload) * payload);
    }

    /** Returns the bytes of files for one link at either end. */
    long linkBytes() {
        return (long) TERMS * Math.max(term, ipcTerm);
    }

    private static int size(Map<String, String> options, String name, int otherwise) {
        String value = options.get(name);
        if (value == null) {
            return otherwise;
        }
        long size = -1;
        try {
            size = SystemUtil.parseSize(name, value);
        } catch (NumberFormatException e) {
            require(false, name + " must be a number, such as 65504 or 4m, got " + value, "");
        }
        require(size >= 0 && size <= Integer.MAX_VALUE, "0 <= " + name + " <= " + Integer.MAX_VALUE
                + " must hold, got " + value, "");
        return (int) size;
    }

    private static boolean flag(Map<String, String> options, String name, boolean otherwise) {
        String value = options.getOrDefault(name, Boolean.toString(otherwise));
        require(value.equals("true") || value.equals("false"), name + " must be true or false, got " + value, "");
        return Boolean.parseBoolean(value);
    }

    /** Returns the longest payload that the network behind a local address carries in one piece. */
    private static int networkMtu(String host) {
        try {
            NetworkInterface network = NetworkInterface.getByInetAddress(InetAddress.getByName(host));
            int mtu = network == null ? ETHERNET_MTU : network.getMTU();
            if (network != null && network.isLoopback()) {
                return MAX_MTU;
            }
            return mtu <= ETHERNET_MTU ? Math.min(mtu - IP_AND_UDP_HEADERS, ETHERNET_PAYLOAD) / ALIGNMENT * ALIGNMENT
                    : Math.min(MAX_MTU, (mtu - IP_AND_UDP_HEADERS) / ALIGNMENT * ALIGNMENT);
        } catch (IOException e) {
            return ETHERNET_PAYLOAD;
        }
    }

    /** Returns what the system allows for both buffers of a socket, up to what we would like. */
    private static int widestSocketBuffer() {
        try (DatagramChannel channel = DatagramChannel.open()) {
            channel.setOption(StandardSocketOptions.SO_RCVBUF, BEST_SOCKET_BUFFER);
            channel.setOption(StandardSocketOptions.SO_SNDBUF, BEST_SOCKET_BUFFER);
            return Math.min(channel.getOption(StandardSocketOptions.SO_RCVBUF),
                    channel.getOption(StandardSocketOptions.SO_SNDBUF));
        } catch (IOException e) {
            throw new TransportException(TransportException.Problem.UNAVAILABLE, "no datagram socket can be opened",
                    "let this process use the network", e);
        }
    }

    /** Checks that a directory has room for so many bytes. */
    static void requireRoom(Path directory, long bytes, String what) {
        try {
            long free = Files.getFileStore(directory).getUsableSpace();
            if (free < bytes) {
                throw noRoom(directory, what + " takes " + (bytes >> 10) + " KiB, " + (free >> 10) + " KiB are free",
                        null);
            }
        } catch (IOException e) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "cannot use the directory " + directory
                    + ": " + e, "make it or name another", e);
        }
    }

    static TransportException noRoom(Path directory, String what, Throwable cause) {
        return new TransportException(TransportException.Problem.NO_ROOM, directory + " is full: " + what,
                "free some, make it larger (mount -o remount,size=1g /dev/shm; for a container --shm-size=1g), name "
                        + "another directory, or choose a smaller term and ipcTerm", cause);
    }

    private static void require(boolean holds, String relation, String remedy) {
        if (!holds) {
            throw new TransportException(TransportException.Problem.ARGUMENT, relation, remedy);
        }
    }
}
