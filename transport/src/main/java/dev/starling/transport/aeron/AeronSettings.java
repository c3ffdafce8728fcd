package dev.starling.transport.aeron;

import static dev.starling.transport.TransportException.require;

import dev.starling.transport.TransportException;
import dev.starling.transport.option.WireOptions;
import dev.starling.transport.spi.WireConfig;
import java.io.IOException;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.StandardSocketOptions;
import java.nio.channels.DatagramChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Settings of a wire, validated. Sizes are in bytes.
 *
 * @param base directory in which each wire keeps its files in a directory of its own
 * @param driver directory of a media driver that runs elsewhere, or {@code null} for the wire's own
 * @param threads of the wire's own driver; with 0 the wire's {@code poll} drives it
 * @param mtu maximum length of a datagram without its headers
 * @param term length of the term buffers of a link over UDP, of which each end has three
 * @param ipcTerm length of the term buffers of a link within the host, of which there are three
 * @param window maximum number of bytes in flight to a receiver
 * @param socketBuffer of each socket
 * @param ipc whether links to wires of the same host bypass the network
 * @param linger maximum time to wait on closing until peers have received what was sent
 * @param livenessNs how long Aeron waits for a process within the host, whose end its lock shows sooner
 * @param imageLivenessNs how long a link over UDP survives without receiving anything, longer than the layer above
 *     waits
 */
record AeronSettings(Path base, @Nullable Path driver, int threads, int mtu, int term, int ipcTerm, int window,
        int socketBuffer, boolean ipc, Duration linger, long livenessNs, long imageLivenessNs) {
    /** Bytes of Aeron's header of each fragment. */
    static final int HEADER = 32;
    /** All frames are aligned to a multiple of this. */
    static final int ALIGNMENT = 32;
    static final int MAX_MTU = 65_504;
    static final int TERMS = 3;

    private static final int MAX = Integer.MAX_VALUE;
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
    /** Aeron's senders are silent for up to 100 ms. */
    private static final long MIN_IMAGE_LIVENESS_NS = TimeUnit.SECONDS.toNanos(1);
    private static final Set<String> NAMES = Set.of("driver", "threads", "mtu", "term", "ipcTerm", "window",
            "socketBuffer", "ipc", "linger");

    static AeronSettings of(WireConfig config) {
        WireOptions options = WireOptions.of(config, "aeron", NAMES);
        int maxBuffer = maxSocketBuffer();
        int mtu = options.size("mtu", Math.min(interfaceMtu(config.host()), maxBuffer / ALIGNMENT * ALIGNMENT), MAX);
        int term = options.size("term", DEFAULT_TERM, MAX);
        int socketBuffer = options.size("socketBuffer", maxBuffer, MAX);
        String driver = options.values().get("driver");
        AeronSettings settings = new AeronSettings(
                config.directory() == null ? WireDirectory.defaultBase() : config.directory().toAbsolutePath(),
                driver == null ? null : Path.of(driver).toAbsolutePath(), options.size("threads", 0, MAX), mtu, term,
                options.size("ipcTerm", DEFAULT_TERM, MAX),
                options.size("window", Math.min(socketBuffer, term / 2), MAX), socketBuffer,
                options.flag("ipc", config.sharedMemory()), Duration.ofMillis(options.size("linger", 500, MAX)),
                Math.max(MIN_LIVENESS_NS, 2 * config.livenessTimeout().toNanos()),
                Math.max(MIN_IMAGE_LIVENESS_NS, 2 * config.livenessTimeout().toNanos()));
        settings.check(maxBuffer);
        return settings;
    }

    private void check(int maxBuffer) {
        require(threads <= 3, "0 <= threads <= 3 must hold, got " + threads, "0 leaves the driver to the caller");
        require(threads == 0 || driver == null, "threads=" + threads + " configures the wire's own driver, but the "
                + "option driver names another", "omit one of the two");
        require(mtu > HEADER && mtu <= MAX_MTU, HEADER + " < mtu <= " + MAX_MTU + " must hold, got mtu=" + mtu,
                "a UDP datagram holds no more");
        require(mtu % ALIGNMENT == 0, "mtu must be a multiple of " + ALIGNMENT + ", got mtu=" + mtu,
                "for example " + Math.max(2 * ALIGNMENT, mtu / ALIGNMENT * ALIGNMENT));
        checkTerm("term", term);
        checkTerm("ipcTerm", ipcTerm);
        require(socketBuffer <= maxBuffer, "socketBuffer <= " + maxBuffer + " must hold here, got socketBuffer="
                + socketBuffer, "raise the limit with: sysctl -w net.core.rmem_max=" + socketBuffer
                + " net.core.wmem_max=" + socketBuffer);
        require(mtu <= socketBuffer, "mtu <= socketBuffer must hold, got mtu=" + mtu + ", socketBuffer=" + socketBuffer,
                "a datagram must fit into the socket's buffer");
        require(mtu <= window && window <= term / 2, "mtu <= window <= term/2 must hold, got mtu=" + mtu + ", window="
                + window + ", term=" + term, "choose another window or a longer term");
        require(window <= socketBuffer, "window <= socketBuffer must hold, got window=" + window + ", socketBuffer="
                + socketBuffer, "the window must fit into the socket's buffer");
    }

    private static void checkTerm(String name, int length) {
        require(Integer.bitCount(length) == 1 && length >= MIN_TERM && length <= MAX_TERM, name
                + " must be a power of two from " + MIN_TERM + " to " + MAX_TERM + ", got " + name + "="
                + length, "for example 4m");
    }

    /** Returns whether socket buffers here are smaller than a fast network needs. */
    boolean isSocketBufferSmall() {
        return socketBuffer < BEST_SOCKET_BUFFER / 4;
    }

    int maxMessageLength() {
        return Math.min(MAX_MESSAGE, Math.min(term, ipcTerm) / 8);
    }

    /** Returns the length that fills one datagram, or several if datagrams are small. */
    int bulkMessageLength() {
        int payload = mtu - HEADER;
        return Math.min(maxMessageLength(), Math.max(1, BULK_MESSAGE / payload) * payload);
    }

    /** Returns the size in bytes of the files of one link at either end. */
    long linkBytes() {
        return (long) TERMS * Math.max(term, ipcTerm);
    }

    /** Returns the maximum payload that the interface of a local address carries in one datagram. */
    private static int interfaceMtu(String host) {
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

    /** Returns the size that the system allows for both buffers of a socket, up to {@link #BEST_SOCKET_BUFFER}. */
    private static int maxSocketBuffer() {
        try (DatagramChannel channel = DatagramChannel.open()) {
            channel.setOption(StandardSocketOptions.SO_RCVBUF, BEST_SOCKET_BUFFER);
            channel.setOption(StandardSocketOptions.SO_SNDBUF, BEST_SOCKET_BUFFER);
            return Math.min(channel.getOption(StandardSocketOptions.SO_RCVBUF),
                    channel.getOption(StandardSocketOptions.SO_SNDBUF));
        } catch (IOException e) {
            throw new TransportException(TransportException.Problem.UNAVAILABLE, "cannot open a datagram socket",
                    "allow this process to use the network", e);
        }
    }

    /** Checks that a directory has room for a number of bytes. */
    static void requireRoom(Path directory, long bytes, String what) {
        try {
            long free = Files.getFileStore(directory).getUsableSpace();
            if (free < bytes) {
                throw noRoom(directory, what + " needs " + (bytes >> 10) + " KiB, but only " + (free >> 10)
                        + " KiB are free",
                        null);
            }
        } catch (IOException e) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "cannot use the directory " + directory
                    + ": " + e, "create it or choose another", e);
        }
    }

    static TransportException noRoom(Path directory, String what, @Nullable Throwable cause) {
        return new TransportException(TransportException.Problem.NO_ROOM, directory + " is full: " + what,
                "free space, enlarge it (mount -o remount,size=1g /dev/shm; for a container --shm-size=1g), choose "
                        + "another directory, or set a smaller term and ipcTerm", cause);
    }
}
