package dev.starling.transport.ucx;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import dev.starling.transport.system.SystemCall;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.Socket;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;

/**
 * Tunes the TCP connections of a wire with processes of the same host. There is no network between them that could be
 * congested; a congestion control that measures it and paces what is sent, as {@code bbr} does, only costs processor
 * time. Nor is a large send buffer needed, and data that are copied into the kernel and out again are copied faster
 * while they are in the processors' caches.
 *
 * <p>UCX has no setting for this and does not reveal its sockets. So this class finds them among all sockets of the
 * process, except those that were open before the wire was. One limitation remains: a connection from an address to the
 * same address that the application, or another wire, opens after this wire is tuned along with the wire's.
 */
final class HostSockets {
    /** A larger send buffer is of no use. Linux allocates twice this size, and counts its own overhead in it. */
    static final int SEND_BYTES = 512 << 10;

    private static final Path DESCRIPTORS = Path.of("/proc/self/fd");
    private static final int SOCKET = 1;
    private static final int TYPE = 3;
    private static final int STREAM = 1;
    private static final int SEND_BUFFER = 7;
    private static final int TCP = 6;
    private static final int CONGESTION = 13;
    private static final short INET = 2;
    private static final short INET6 = 10;
    private static final int SOCKET_ADDRESS_BYTES = 28;
    /**
     * Congestion controls that react to loss only, the faster first; the system may reserve some for privileged users.
     */
    private static final String[] UNPACED = {"cubic", "reno"};

    private final int sendBytes;
    /** Names of the sockets that do not belong to the wire, as the kernel gives them. */
    private final Set<String> others = new HashSet<>();

    /** Records all sockets of the process, before a wire opens its own. */
    HostSockets() {
        this(SEND_BYTES);
    }

    HostSockets(int sendBytes) {
        this.sendBytes = sendBytes;
        try (DirectoryStream<Path> descriptors = Files.newDirectoryStream(DESCRIPTORS)) {
            for (Path path : descriptors) {
                others.add(target(path));
            }
        } catch (IOException | DirectoryIteratorException e) {
            // Not Linux: later no socket is found, either.
            others.clear();
        }
    }

    /**
     * Turns off pacing for all sockets opened since, and limits their send buffers; returns how many sockets were
     * changed.
     */
    int tune() {
        int done = 0;
        try (Arena arena = Arena.ofConfined();
                DirectoryStream<Path> descriptors = Files.newDirectoryStream(DESCRIPTORS)) {
            MemorySegment[] names = new MemorySegment[UNPACED.length];
            for (int i = 0; i < names.length; i++) {
                names[i] = arena.allocateFrom(UNPACED[i]);
            }
            MemorySegment room = isGranted() ? arena.allocateFrom(JAVA_INT, sendBytes) : null;
            MemorySegment here = arena.allocate(SOCKET_ADDRESS_BYTES, Integer.BYTES);
            MemorySegment there = arena.allocate(SOCKET_ADDRESS_BYTES, Integer.BYTES);
            MemorySegment length = arena.allocate(JAVA_INT);
            for (Path path : descriptors) {
                String target = target(path);
                if (!target.startsWith("socket:") || others.contains(target)) {
                    continue;
                }
                int descriptor = Integer.parseInt(path.getFileName().toString());
                if (Calls.option(descriptor, SOCKET, TYPE, here, length) && here.get(JAVA_INT, 0) == STREAM
                        && Calls.address(Calls.OWN_ADDRESS, descriptor, here, length)
                        && Calls.address(Calls.PEERS_ADDRESS, descriptor, there, length) && isSameHost(here, there)) {
                    if (room != null) {
                        Calls.setOption(descriptor, SOCKET, SEND_BUFFER, room, room.byteSize());
                    }
                    done += disablePacing(descriptor, names) ? 1 : 0;
                }
            }
        } catch (IOException | DirectoryIteratorException e) {
            // Not Linux: the sockets remain unchanged.
            return done;
        }
        return done;
    }

    /** Returns the target of a descriptor, such as {@code socket:[4711]}, or an empty text if it is closed by now. */
    private static String target(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString();
        } catch (IOException e) {
            return "";
        }
    }

    /**
     * Returns whether the system grants a send buffer of this size. If its limit ({@code net.core.wmem_max}) is lower,
     * a socket that requests no size may get more: the kernel then grows the buffer up to {@code net.ipv4.tcp_wmem}.
     */
    private boolean isGranted() throws IOException {
        try (Socket probe = new Socket()) {
            probe.setSendBufferSize(sendBytes);
            return probe.getSendBufferSize() >= sendBytes;
        }
    }

    private static boolean disablePacing(int descriptor, MemorySegment[] names) {
        for (MemorySegment name : names) {
            if (Calls.setOption(descriptor, TCP, CONGESTION, name, name.byteSize() - 1)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isSameHost(MemorySegment here, MemorySegment there) {
        short family = here.get(JAVA_SHORT, 0);
        return family == there.get(JAVA_SHORT, 0) && switch (family) {
            case INET -> here.asSlice(4, 4).mismatch(there.asSlice(4, 4)) == -1;
            case INET6 -> here.asSlice(8, 16).mismatch(there.asSlice(8, 16)) == -1;
            default -> false;
        };
    }

    /** Functions of the C library. */
    private static final class Calls {
        static final SystemCall OWN_ADDRESS = SystemCall.of("getsockname", JAVA_INT, ADDRESS, ADDRESS);
        static final SystemCall PEERS_ADDRESS = SystemCall.of("getpeername", JAVA_INT, ADDRESS, ADDRESS);
        private static final SystemCall OPTION = SystemCall.of("getsockopt", JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS,
                ADDRESS);
        private static final SystemCall SET_OPTION = SystemCall.of("setsockopt", JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS,
                JAVA_INT);

        /** Reads an address; returns whether the descriptor is a socket that has one. */
        static boolean address(SystemCall which, int descriptor, MemorySegment into, MemorySegment length) {
            length.set(JAVA_INT, 0, SOCKET_ADDRESS_BYTES);
            return which.call(descriptor, into, length) == 0;
        }

        /** Reads an option of 4 bytes at most; returns whether the descriptor has it. */
        static boolean option(int descriptor, int level, int option, MemorySegment into, MemorySegment length) {
            length.set(JAVA_INT, 0, Integer.BYTES);
            return OPTION.call(descriptor, level, option, into, length) == 0;
        }

        static boolean setOption(int descriptor, int level, int option, MemorySegment value, long length) {
            return SET_OPTION.call(descriptor, level, option, value, (int) length) == 0;
        }
    }
}
