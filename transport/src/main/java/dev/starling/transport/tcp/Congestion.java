package dev.starling.transport.tcp;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import dev.starling.transport.system.SystemCall;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.InterfaceAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Chooses the congestion control of connections, on Linux. {@code bbr}, which suits long and shared paths, paces what
 * is sent with a timer for each few packets. Between hosts of one network that takes about as much processor time as
 * all the rest of TCP, so there a control replaces it that reacts to loss only. There, too, a connection with little
 * under way repeats what was lost at even intervals: if they double each time, an idle connection that is cut off
 * briefly several times in a row can stay silent for longer than the liveness timeout.
 */
final class Congestion {
    /** Changes nothing. */
    static final String SYSTEM = "system";
    /** The system's choice, or one that does not pace where both ends are in one network. */
    static final String AUTOMATIC = "automatic";

    private static final System.Logger LOG = System.getLogger(Congestion.class.getName());
    private static final String PACED = "bbr";
    /**
     * In the short round trips of one network {@code cubic} grows as {@code reno} does, but ends its fast start
     * earlier, at the first delay: some connections then keep a small window for long.
     */
    private static final String[] UNPACED = {"reno", "cubic"};
    private static final Path DESCRIPTORS = Path.of("/proc/self/fd");
    private static final int TCP = 6;
    private static final int CONGESTION = 13;
    private static final int THIN_LINEAR_TIMEOUTS = 16;
    private static final int MAX_NAME = 16;
    private static final int SOCKET_ADDRESS = 28;
    private static final int PORT_AT = 2;
    private static final int ADDRESS4_AT = 4;
    private static final int ADDRESS6_AT = 8;
    private static final int INET = 2;
    private static final int INET6 = 10;

    private final String wanted;
    private final boolean available;
    private final List<InterfaceAddress> networks = new ArrayList<>();

    /** Creates a choice: {@link #SYSTEM}, {@link #AUTOMATIC} or the name of a control. */
    Congestion(String wanted) {
        this.wanted = wanted;
        available = !wanted.equals(SYSTEM) && SystemCall.isOnLinux("getsockname");
        if (available) {
            try {
                NetworkInterface.networkInterfaces().forEach(each -> networks.addAll(each.getInterfaceAddresses()));
            } catch (SocketException e) {
                LOG.log(Level.DEBUG, "cannot list network devices: {0}", e.getMessage());
            }
        }
    }

    /** Chooses the congestion control of a connection that has been established. */
    void choose(SocketChannel channel) {
        if (!available) {
            return;
        }
        try {
            InetSocketAddress peer = (InetSocketAddress) channel.getRemoteAddress();
            boolean automatic = wanted.equals(AUTOMATIC);
            if (automatic && !isNear(peer.getAddress())) {
                return;
            }
            int descriptor = descriptor(channel);
            if (descriptor >= 0 && automatic) {
                repeatEvenly(descriptor);
            }
            if (descriptor >= 0 && (!automatic || of(descriptor).startsWith(PACED))
                    && !set(descriptor, automatic ? UNPACED : new String[] {wanted}) && !automatic) {
                LOG.log(Level.WARNING, "the system refuses the congestion control ''{0}'': see "
                        + "net.ipv4.tcp_allowed_congestion_control", wanted);
            }
        } catch (IOException | DirectoryIteratorException e) {
            LOG.log(Level.DEBUG, "cannot choose a congestion control: {0}", e.getMessage());
        }
    }

    /** Returns whether an address belongs to a network in which this host has an address, too. */
    private boolean isNear(InetAddress peer) {
        return networks.stream().anyMatch(each -> isIn(each.getAddress().getAddress(), each.getNetworkPrefixLength(),
                peer.getAddress()));
    }

    static boolean isIn(byte[] network, int prefix, byte[] address) {
        if (network.length != address.length) {
            return false;
        }
        for (int bit = 0; bit < prefix; bit += Byte.SIZE) {
            int mask = 0xff << Math.max(0, Byte.SIZE - (prefix - bit));
            if (((network[bit / Byte.SIZE] ^ address[bit / Byte.SIZE]) & mask & 0xff) != 0) {
                return false;
            }
        }
        return true;
    }

    /** Returns the file descriptor of the connection between two addresses, or -1: Java has no method for it. */
    private static int descriptor(InetSocketAddress here, InetSocketAddress there) throws IOException {
        try (Arena arena = Arena.ofConfined(); DirectoryStream<Path> all = Files.newDirectoryStream(DESCRIPTORS)) {
            MemorySegment address = arena.allocate(SOCKET_ADDRESS, Integer.BYTES);
            MemorySegment length = arena.allocate(JAVA_INT);
            for (Path path : all) {
                int descriptor = Integer.parseInt(path.getFileName().toString());
                if (has(Calls.OWN_ADDRESS, descriptor, here, address, length)
                        && has(Calls.PEERS_ADDRESS, descriptor, there, address, length)) {
                    return descriptor;
                }
            }
        }
        return -1;
    }

    private static boolean has(SystemCall which, int descriptor, InetSocketAddress wanted, MemorySegment address,
            MemorySegment length) {
        length.set(JAVA_INT, 0, SOCKET_ADDRESS);
        byte[] bytes = wanted.getAddress().getAddress();
        boolean four = bytes.length == Integer.BYTES;
        return which.call(descriptor, address, length) == 0 && address.get(JAVA_SHORT, 0) == (four ? INET : INET6)
                && Short.toUnsignedInt(address.get(JAVA_SHORT.withOrder(ByteOrder.BIG_ENDIAN), PORT_AT))
                        == wanted.getPort()
                && address.asSlice(four ? ADDRESS4_AT : ADDRESS6_AT, bytes.length)
                        .mismatch(MemorySegment.ofArray(bytes)) < 0;
    }

    /** Lets a connection with few packets under way repeat them at even intervals, six times, before these double. */
    private static void repeatEvenly(int descriptor) {
        try (Arena arena = Arena.ofConfined()) {
            Calls.SET_OPTION.call(descriptor, TCP, THIN_LINEAR_TIMEOUTS, arena.allocateFrom(JAVA_INT, 1),
                    Integer.BYTES);
        }
    }

    /** Returns whether a connection repeats at even intervals what was lost. */
    static boolean repeatsEvenly(SocketChannel channel) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment value = arena.allocateFrom(JAVA_INT, 0);
            return Calls.OPTION.call(descriptor(channel), TCP, THIN_LINEAR_TIMEOUTS, value,
                    arena.allocateFrom(JAVA_INT, Integer.BYTES)) == 0 && value.get(JAVA_INT, 0) == 1;
        }
    }

    private static int descriptor(SocketChannel channel) throws IOException {
        return descriptor((InetSocketAddress) channel.getLocalAddress(),
                (InetSocketAddress) channel.getRemoteAddress());
    }

    /** Returns the name of a connection's control, or an empty text if it is not known. */
    static String of(SocketChannel channel) throws IOException {
        return of(descriptor(channel));
    }

    private static String of(int descriptor) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment name = arena.allocate(MAX_NAME + 1);
            MemorySegment length = arena.allocateFrom(JAVA_INT, MAX_NAME);
            return Calls.OPTION.call(descriptor, TCP, CONGESTION, name, length) == 0 ? name.getString(0) : "";
        }
    }

    /** Sets the first of several that the system permits; returns false if it permits none. */
    private static boolean set(int descriptor, String... names) {
        try (Arena arena = Arena.ofConfined()) {
            for (String name : names) {
                byte[] bytes = name.getBytes(StandardCharsets.US_ASCII);
                if (Calls.SET_OPTION.call(descriptor, TCP, CONGESTION, arena.allocateFrom(JAVA_BYTE, bytes),
                        bytes.length) == 0) {
                    return true;
                }
            }
            return false;
        }
    }

    /** Functions of the C library. */
    private static final class Calls {
        static final SystemCall OWN_ADDRESS = SystemCall.of("getsockname", JAVA_INT, ADDRESS, ADDRESS);
        static final SystemCall PEERS_ADDRESS = SystemCall.of("getpeername", JAVA_INT, ADDRESS, ADDRESS);
        static final SystemCall OPTION = SystemCall.of("getsockopt", JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS, ADDRESS);
        static final SystemCall SET_OPTION = SystemCall.of("setsockopt", JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS,
                JAVA_INT);
    }
}
